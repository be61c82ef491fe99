// Maps each slot of a model's block to the tensor that it binds in one pass.
#pragma once

#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// The tensor of a slot that is not a view, by its role. Parameters and gradients may lie in a copy
// for this use or this micro-batch; then the use has its name and shape. Else they lie in their
// bucket.
TensorUse UseOfSlot(const LowerContext& context, const InstructionKey& key, const TensorSlot& slot);

}  // namespace foretrain
