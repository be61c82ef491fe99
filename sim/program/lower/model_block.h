// Passes of the model's blocks as steps: which template each takes, and where its tensors lie.
#pragma once

#include "sim/program/lower/skeleton.h"
#include "sim/program/lower/tensor_table.h"

namespace foretrain {

// One pass of one block for one micro-batch.
SkeletonStep BlockStep(Pass pass, int block, int micro_batch);

// How many pieces the pass can be cut into so that another block's run between them; 1 where
// nothing in it waits for communication. Builds the block: O(its ops).
int PiecesOf(const LowerContext& context, Pass pass, int block);

// Piece `piece` of a pass that has several (blocks/pieces.h); its number is the key's part. All of
// them, in order, are the pass.
SkeletonStep PieceStep(Pass pass, int block, int micro_batch, int piece);

// A copy of a bucket's parameters that a strategy makes for the uses of `use.block` and its
// micro-batch: in the forward or, by any other pass, in the backward. Where there is none, block
// passes read the bucket's own buffer.
TensorName ParameterCopy(const InstructionKey& use, int bucket);
// A copy of this rank's shard, for the gather of `use`, whose part is the bucket.
TensorName ShardCopy(const InstructionKey& use);

// Consecutive steps that use one copy of a block's parameters: a pass, with the recomputation
// before it. All of a skeleton, in order.
std::vector<BlockUse> ParameterUses(const Skeleton& skeleton);
// Whether the use reads parameters of the bucket, which is one of its block's.
bool ReadsBucket(const LowerContext& context, const InstructionKey& use, int bucket);

}  // namespace foretrain
