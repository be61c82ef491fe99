// Live memory over time as a bounded number of moments, for pages that must stay small.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

struct LiveMoment {
  std::int64_t time_ns = 0;
  std::array<std::int64_t, kCategoryCount> bytes{};  // live from here to the next moment
};

// The memory of one rank in one space.
struct MemoryLevels {
  int rank = 0;
  Space space = Space::kDevice;
  std::vector<LiveMoment> moments{};  // by time
};

// The levels of `ranks`, by rank and space, with at most `max_moments` each: time is cut into equal
// pieces, and the fullest moment of each piece is kept, so the peak is. The timeline must be
// sorted. O(samples).
std::vector<MemoryLevels> LevelsOf(const Timeline& timeline, const std::vector<int>& ranks,
                                   std::size_t max_moments);

}  // namespace foretrain
