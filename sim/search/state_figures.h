// What one rank's buckets cost and hold. Leaves out which ranks are looked at (state_table.h).
#pragma once

#include "sim/program/lower/skeleton.h"
#include "sim/search/block_table.h"
#include "sim/search/state_table.h"

namespace foretrain {

// Of the rank of `context`, whose blocks' times are in `times`. O(buckets + blocks).
StateFigures FiguresOf(const LowerContext& context, BlockTimes& times);

}  // namespace foretrain
