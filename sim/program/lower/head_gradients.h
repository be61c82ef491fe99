// Gradients of heads of keys and values that several tensor-parallel ranks have, because there are
// fewer heads than ranks: each makes the part of its own queries.
#pragma once

#include <vector>

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// Those of the bucket's gradients that this rank updates, ascending; empty where each rank has
// heads of its own.
std::vector<ShardRange> HeadGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
