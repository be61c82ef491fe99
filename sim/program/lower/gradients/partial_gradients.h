// Gradients of replicated parameters of which each tensor-parallel rank computes a part: from its
// own rows (sequence parallelism), or from its own queries, if several ranks share the heads of
// keys and values because there are fewer heads than ranks.
#pragma once

#include <vector>

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// The part of the bucket's gradients that this rank updates and that is made of own rows; an empty
// range if there is none.
ShardRange OwnRowGradients(const LowerContext& context, int bucket);

// Ranges of gradients of shared heads in the part of the bucket that this rank updates, ascending.
// Empty if each rank has heads of its own.
std::vector<ShardRange> HeadGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
