// The allocations that hold memory at a rank's peak, by the stack that made them. Snapshots of
// PyTorch's allocator tell them. The store keeps them as the attachment "held_memory".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/kinds.h"

namespace foretrain {

// The attachment's name.
inline constexpr std::string_view kHeldAttachment = "held_memory";

// Memory that allocations of one stack hold at the rank's peak.
struct HeldMemory {
  std::string frame{};  // "train.py:12 forward"; empty: no stack was recorded
  Category category = Category::kWorkspace;
  std::int64_t bytes = 0;
  std::int64_t allocations = 0;

  bool operator==(const HeldMemory&) const = default;
};

struct HeldOfRank {
  int rank = 0;
  std::vector<HeldMemory> held{};  // largest first

  bool operator==(const HeldOfRank&) const = default;
};

// {"schema": 1, "ranks": [{"rank", "held": [{"frame", "category", "bytes", "allocations"}]}]}.
std::string HeldToJson(const std::vector<HeldOfRank>& ranks);

// Reads what HeldToJson wrote. Errors: kCorruptInput or kInvalidArgument, naming `source` and the
// field.
Result<std::vector<HeldOfRank>> HeldFromJson(std::string_view text, std::string_view source);

}  // namespace foretrain
