// Peak memory of a rank of a linked program, in issue order. Leaves out memory outside the program
// (contexts, library workspaces), alignment and fragmentation of the arena.
#pragma once

#include <cstdint>

#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"

namespace foretrain {

struct LinkedPeakMemory : PeakMemory {
  std::int32_t op = -1;  // number of the op that first reaches the peak; -1: state alone
};

// Bytes by category at the first moment of the highest total of one space.
//
//   rank   linked, so its buffers have lifetimes: a buffer that is not persistent lives from
//          first_op to last_op, both included; one that no op touches never lives
//   taken  bytes that an allocator takes for a buffer of so many bytes; null: as many
//
// Issue order makes the peak independent of timing. O(buffers + ops); safe from any thread.
LinkedPeakMemory LinkedPeak(const RankProgram& rank, Space space = Space::kDevice,
                            std::int64_t (*taken)(std::int64_t bytes) = nullptr);

}  // namespace foretrain
