// Which gradients of replicated parameters tensor-parallel ranks make parts of.
#pragma once

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// What of the bucket's gradients that this rank updates is made of own rows; empty: nothing.
ShardRange OwnRowGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
