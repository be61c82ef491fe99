// Peak memory of a rank, and what it holds then.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// High-water mark of one rank and space in one window. t* is the first time at which the sum over
// categories is largest. Samples of one moment count together, after the last of them.
struct MemoryPeak {
  int rank = 0;
  std::int32_t step = -1;  // -1: the whole timeline
  Space space = Space::kDevice;
  std::int64_t time_ns = 0;                                // t*
  std::int64_t bytes = 0;                                  // live at t*
  std::array<std::int64_t, kCategoryCount> parts{};        // live at t*; they sum to `bytes`
  std::array<std::int64_t, kCategoryCount> max{};          // each category's own maximum
  std::array<std::int64_t, kCategoryCount> max_time_ns{};  // time of that maximum
};

// The peaks of each rank and space with samples: one over the whole timeline (step -1) and one for
// each step window. A window starts with the memory live at its start, whenever that was sampled,
// and ends before its end. Sorted by (rank, space, step).
//
//   timeline  sorted
//
// O(n + the samples inside windows).
std::vector<MemoryPeak> MemoryPeaks(const Timeline& timeline);

}  // namespace foretrain
