// Gradients of replicated parameters of which each tensor-parallel rank computes a part, from its
// own rows (sequence parallelism).
#pragma once

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// The part of the bucket's gradients that this rank updates and that is made of own rows; an empty
// range if there is none.
ShardRange OwnRowGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
