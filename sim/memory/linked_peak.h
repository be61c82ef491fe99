// Peak memory of a rank of a linked program, in issue order. Leaves out what lies outside the
// program (contexts, library workspaces) and the arena's alignment and fragmentation.
#pragma once

#include <cstdint>

#include "sim/memory/peak_memory.h"
#include "sim/program/program.h"

namespace foretrain {

struct LinkedPeakMemory : PeakMemory {
  std::int32_t op = -1;  // number in the rank's step at which it is first reached; -1: state alone
};

// Bytes by category at the first moment of the highest total of one space.
//
//   rank  linked: its buffers have lives. A buffer that is not persistent is live from first_op to
//         last_op, both included; one that no op touches is never live.
//   taken  bytes that an allocator takes for a buffer of so many; null: as many
//
// The order is that of issue, so that the peak does not depend on timing. O(buffers + ops); safe
// from any thread.
LinkedPeakMemory LinkedPeak(const RankProgram& rank, Space space = Space::kDevice,
                            std::int64_t (*taken)(std::int64_t bytes) = nullptr);

}  // namespace foretrain
