// Passes of the model's blocks as steps: the template that each runs, and the places of its
// tensors.
#pragma once

#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/tensor_table.h"

namespace foretrain {

// One pass of one block for one micro-batch.
SkeletonStep BlockStep(Pass pass, int block, int micro_batch);

// Number of pieces into which the pass can be cut, so that another block's pieces can run between
// them. 1 if no op waits for communication. Builds the block: O(its ops).
int PiecesOf(const LowerContext& context, Pass pass, int block);

// Piece `piece` of a pass (blocks/pieces.h); key.part is its number. All pieces in order are the
// pass.
SkeletonStep PieceStep(Pass pass, int block, int micro_batch, int piece);

}  // namespace foretrain
