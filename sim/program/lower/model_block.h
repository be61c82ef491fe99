// Passes of the model's blocks as steps: which template each takes, and where its tensors lie.
#pragma once

#include "sim/program/lower/skeleton.h"
#include "sim/program/lower/tensor_table.h"

namespace foretrain {

// One pass of one block for one micro-batch.
SkeletonStep BlockStep(Pass pass, int block, int micro_batch);

// A copy of a bucket's parameters that a strategy makes for the uses of `use.block` and its
// micro-batch: in the forward or, by any other pass, in the backward. Where there is none, block
// passes read the bucket's own buffer.
TensorName ParameterCopy(const InstructionKey& use, int bucket);

}  // namespace foretrain
