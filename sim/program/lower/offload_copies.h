// What the strategies that keep tensors off the device share: copies as steps, their bytes, and
// where in the order of a step the compute uses what they bring.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// A tensor on its way from one buffer to another.
struct Move {
  Binding from;
  Binding to;
};

// Adds the instruction of `key`: one copy a move, all along one route. At least one move.
void AddCopies(RankBuilder& rank, const InstructionKey& key, const char* name, bool state,
               std::span<const Move> moves);

// What a copy of `bytes` from buffers that die with it to new ones adds to and takes from `space`.
StepMemory MovedMemory(Space space, Space from, Space to, const CategoryBytes& bytes);

// Consecutive instructions of the compute that use a block's tensors together: one pass, with the
// recomputation before it. All of a skeleton, in order.
struct BlockUse {
  std::size_t begin = 0;  // position
  std::size_t last = 0;
};
std::vector<BlockUse> BlockUses(const Skeleton& skeleton);

}  // namespace foretrain
