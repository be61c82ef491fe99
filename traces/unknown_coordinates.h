// Coordinates of ops whose trace does not say them: ids of imported runs. Leaves out how a trace is
// read (traces/import/).
#pragma once

#include "traces/kinds.h"

namespace foretrain {

// The block of an op of which no layer is known. No program has so many blocks.
inline constexpr int kUnknownBlock = 8191;

// Micro-batches from here on are none: the rest numbers the calls of one name within a step, so
// that each has an id of its own. [0, 2^17) calls; later ones share the last id.
inline constexpr int kUnknownMicroBatch = 1 << 17;

constexpr bool IsMicroBatchKnown(const InstructionKey& key) {
  return key.micro_batch < kUnknownMicroBatch;
}
constexpr bool IsBlockKnown(const InstructionKey& key) { return key.block != kUnknownBlock; }

}  // namespace foretrain
