// Allocations that would give a rank's memory samples. Runs record live bytes by category, not
// single buffers; tools for allocators want allocations with addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

struct AllocationEvent {
  bool is_free = false;
  std::int64_t time_ns = 0;
  std::int64_t address = 0;  // from 0; live allocations do not overlap
  std::int64_t bytes = 0;
  Category category = Category::kActivations;
  OpId op = kNoOp;  // that began last before an allocation; of a free, that of its allocation
  std::int32_t step = -1;  // of that op
};

struct Allocations {
  std::vector<AllocationEvent> events{};  // by time
  std::vector<AllocationEvent> live{};    // in the end, by address
  std::int64_t segment_bytes = 0;         // all addresses lie below; a multiple of 2 MiB
};

// Sizes of live blocks are rounded up to this, as PyTorch's caching allocator does.
inline constexpr std::int64_t kAllocationUnit = 512;

// The device memory of `rank`. A rise of a category is an allocation. A fall frees the newest
// allocation of its size; if there is none, the newest ones, the last of which is cut. An
// allocation takes the first place that is large enough. The timeline must be sorted.
//
// O(samples * log spans), and times the number of free places.
Allocations AllocationsOf(const Timeline& timeline, int rank);

}  // namespace foretrain
