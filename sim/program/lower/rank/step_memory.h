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

// A tensor that lives during some ops of a block. It is made inside unless it `enters`, and gone
// after its last access unless it `stays`.
struct Tenant {
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  int first = -1;  // first op that touches it; -1: none does
  int last = -1;   // last op that touches it
  bool enters = false;
  bool stays = false;
};

// First and last op that touches each slot, directly or through a view.
std::vector<Tenant> Touch(const Block& block);

// Bytes of the tenants at the first op with the max total, and after the last of `ops`.
StepMemory MemoryOfTenants(const std::vector<Tenant>& tenants, int ops);

// Bytes that the instruction adds to `space`. If it makes or frees something there, its block is
// looked up in `blocks` and made if it is new.
StepMemory MemoryOf(const LowerContext& context, const StepDescription& step, Space space,
                    BlockRegistry& blocks);

// Bytes of the rank's state by space: buffers that live for the whole run. O(buckets).
std::array<CategoryBytes, kSpaceCount> StateBytes(const LowerContext& context);

}  // namespace foretrain
