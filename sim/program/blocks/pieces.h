// Cuts a block where its compute waits for its communication, so that the pieces of two blocks can
// be issued in turn: while one waits, the other computes. Leaves out which blocks run side by side:
// sim/program/lower/pipeline.cc.
#pragma once

#include <vector>

#include "sim/program/op.h"

namespace foretrain {

// The numbers of the ops that begin a piece, ascending, 0 first: a piece ends before the first op
// that waits for a communication op of the same piece.
std::vector<int> PieceBegins(const Block& block);

// One slot of a piece, as the whole block uses it.
struct PieceUse {
  bool earlier = false;  // an earlier piece touches it
  bool later = false;    // a later piece touches it
};

// Piece number `piece` of the block, 0 <= piece < PieceBegins(block).size(): the ops of the piece,
// with the slots that they touch. A temporary that several pieces touch has the role kCarried and
// the number of its slot in the whole block as index.
struct BlockPiece {
  Block block;
  std::vector<PieceUse> uses;  // by slot
};
BlockPiece CutPiece(const Block& block, int piece);

}  // namespace foretrain
