// What one pass of one block adds to and takes from a rank's live bytes while its ops run.
#pragma once

#include <cstdint>

#include "sim/memory/peak_memory.h"
#include "sim/program/lower/skeleton.h"

namespace foretrain {

// Relative to the live bytes just before the block's first op.
struct BlockMemory {
  CategoryBytes at_peak{};
  CategoryBytes at_end{};
  std::int64_t peak_total = 0;
};

// Memory of the block that `key` runs. With ZeRO-3 over several ranks gathered parameters live up
// to their last reader and a bucket's gradients from their first writer to the reduction behind.
BlockMemory MemoryOfBlock(const LowerContext& context, const InstructionKey& key);

}  // namespace foretrain
