// Gradients of key and value heads that several tensor-parallel ranks share, because there are
// fewer heads than ranks. Each rank computes the part of its own queries.
#pragma once

#include <vector>

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Ranges of such gradients in the part of the bucket that this rank updates, ascending. Empty if
// each rank has heads of its own.
std::vector<ShardRange> HeadGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
