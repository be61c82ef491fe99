// Placeholder coordinates in ids of imported ops, for traces that do not state them.
#pragma once

#include "traces/kinds.h"

namespace foretrain {

// The block of an op with unknown layer. No program has that many blocks.
inline constexpr int kUnknownBlock = 8191;

// Micro-batch numbers from here on count the calls of one name within a step, so that each call has
// its own id. [0, 2^17) calls; later calls share the last id.
inline constexpr int kUnknownMicroBatch = 1 << 17;

constexpr bool IsMicroBatchKnown(const InstructionKey& key) {
  return key.micro_batch < kUnknownMicroBatch;
}
constexpr bool IsBlockKnown(const InstructionKey& key) { return key.block != kUnknownBlock; }

}  // namespace foretrain
