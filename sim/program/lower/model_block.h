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

}  // namespace foretrain
