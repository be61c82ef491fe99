// Live bytes of one rank over time, by category. Leaves out where buffers lie.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "traces/timeline.h"

namespace foretrain::ui {

using CategoryBytes = std::array<std::int64_t, kCategoryCount>;

// Bytes from one change to the next.
struct MemoryLevel {
  std::int64_t time_ns = 0;
  std::int64_t total_bytes = 0;
  CategoryBytes parts{};
};

// What a column of pixels shows: the fullest moment in it, and the least total.
struct MemoryColumn {
  MemoryLevel most{};
  std::int64_t least_bytes = 0;
};

class MemoryCurve {
 public:
  MemoryCurve() = default;

  // Samples of one moment count together, after the last of them. Negative bytes count as 0.
  // O(samples of the rank).
  MemoryCurve(const Timeline& timeline, int rank, Space space);

  bool empty() const { return levels_.empty(); }
  const std::vector<MemoryLevel>& levels() const { return levels_; }

  // What is live at `time_ns`: nothing before the first sample. O(log n).
  MemoryLevel At(double time_ns) const;

  // The fullest moment in [start_ns, end_ns), the first of equal ones. O(log n + levels inside).
  MemoryLevel PeakIn(double start_ns, double end_ns) const;

  // One for each of `columns` in the window. O(columns + levels inside).
  std::vector<MemoryColumn> Fold(double start_ns, double end_ns, int columns) const;

 private:
  std::size_t FirstAfter(double time_ns) const;

  std::vector<MemoryLevel> levels_;
};

}  // namespace foretrain::ui
