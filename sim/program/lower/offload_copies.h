// What the strategies that keep tensors off the device share: copies as steps, and their bytes.
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

}  // namespace foretrain
