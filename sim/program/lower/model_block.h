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
// A copy of this rank's shard, for the gather of `use`, whose part is the bucket.
TensorName ShardCopy(const InstructionKey& use);

// Consecutive steps that use one copy of a block's parameters: a pass, with the recomputation
// before it. All of a skeleton, in order.
std::vector<BlockUse> ParameterUses(const Skeleton& skeleton);

}  // namespace foretrain
