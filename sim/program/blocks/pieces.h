// Cuts a block where its compute waits for its communication, so that two blocks' pieces can be
// issued alternately: while one block waits, the other computes. Which blocks are paired:
// sim/program/lower/model/pipeline.cc.
#pragma once

#include <vector>

#include "sim/program/ir/op.h"

namespace foretrain {

// Numbers of the ops that begin a piece, ascending, beginning with 0. A piece ends before the first
// op that waits for a communication op of the same piece.
std::vector<int> PieceBegins(const Block& block);

// Use of one of a piece's slots by the other pieces of the block.
struct PieceUse {
  bool earlier = false;  // an earlier piece touches it
  bool later = false;    // a later piece touches it
};

// Piece `piece` of the block, 0 <= piece < PieceBegins(block).size(): its ops and the slots that
// they touch. A temporary that several pieces touch gets role kCarried, with its slot number in the
// whole block as index.
struct BlockPiece {
  Block block;
  std::vector<PieceUse> uses;  // one per slot
};
BlockPiece CutPiece(const Block& block, int piece);

}  // namespace foretrain
