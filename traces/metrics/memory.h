// The fullest moment of a rank's memory and what it then holds. Leaves out where buffers lie.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

// High-water mark of one rank and space in one window. t* is the first time of the maximum of the
// sum over categories; samples of one moment count together, after the last of them.
struct MemoryPeak {
  int rank = 0;
  std::int32_t step = -1;  // -1: the whole timeline
  Space space = Space::kDevice;
  std::int64_t time_ns = 0;                                 // t*
  std::int64_t bytes = 0;                                   // live at t*
  std::array<std::int64_t, kCategoryCount> parts{};         // live at t*; they sum to `bytes`
  std::array<std::int64_t, kCategoryCount> most{};          // each category's own maximum
  std::array<std::int64_t, kCategoryCount> most_time_ns{};  // and when it was first reached
};

// The peaks of each rank and space that has samples: one over the whole timeline (step -1) and one
// for each step window. A window starts with what is live at its start, whenever that was sampled,
// and ends before its end. Sorted by (rank, space, step).
//
//   timeline  sorted
//
// O(n + the samples inside windows).
std::vector<MemoryPeak> MemoryPeaks(const Timeline& timeline);

}  // namespace foretrain
