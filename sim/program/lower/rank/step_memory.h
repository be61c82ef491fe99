// Live bytes of one instruction, from its description: tensors that it makes less those that it
// frees.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/program/ir/category_bytes.h"
#include "sim/program/lower/rank/block_registry.h"
#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// Live bytes of an instruction, relative to those before its first op. Negative if it frees more
// than it makes.
struct StepMemory {
  CategoryBytes at_peak{};
  CategoryBytes at_end{};
  std::int64_t peak_total = 0;
  bool operator==(const StepMemory&) const = default;
};

// First and last op that touches each slot, directly or through a view.
std::vector<Tenant> Touch(const Block& block);

// Bytes of the tenants at the first op with the max total, and after the last op.
StepMemory MemoryOf(const Lives& lives);

// Bytes that the instruction of `key`, described by `step`, adds to `space`. If it makes or frees
// something there, its block is looked up in `blocks` and made if it is new.
StepMemory MemoryOf(const LowerContext& context, const InstructionKey& key,
                    const StepDescription& step, Space space, BlockRegistry& blocks);

// Bytes of the rank's state by space: buffers that live for the whole run. O(buckets).
std::array<CategoryBytes, kSpaceCount> StateBytes(const LowerContext& context);

}  // namespace foretrain
