// Memory in use on one rank over time, by category.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/timeline.h"

namespace foretrain::ui {

using CategoryBytes = std::array<std::int64_t, kCategoryCount>;

// Bytes in use from `time_ns` to the next change.
struct MemoryLevel {
  std::int64_t time_ns = 0;
  std::int64_t total_bytes = 0;
  CategoryBytes parts{};
};

// Content of one column of pixels: the fullest moment in it and the lowest total.
struct MemoryColumn {
  MemoryLevel max{};
  std::int64_t min_bytes = 0;
};

class MemoryCurve {
 public:
  MemoryCurve() = default;

  // Samples of one moment make one level, with the values after the last of them. Negative bytes
  // count as 0. O(samples).
  MemoryCurve(std::span<const MemorySample> samples, int rank, Space space);
  MemoryCurve(const Timeline& timeline, int rank, Space space)
      : MemoryCurve(timeline.memory, rank, space) {}

  bool empty() const { return levels_.empty(); }
  const std::vector<MemoryLevel>& levels() const { return levels_; }

  // Memory in use at `time_ns`; zero before the first sample. O(log n).
  MemoryLevel At(double time_ns) const;

  // The fullest moment in [start_ns, end_ns), the first among equals. O(log n + levels inside).
  MemoryLevel PeakIn(double start_ns, double end_ns) const;

  // One entry for each of `columns` in the window; empty if there are no samples. O(columns +
  // levels inside).
  std::vector<MemoryColumn> Fold(double start_ns, double end_ns, int columns) const;

 private:
  std::size_t FirstAfter(double time_ns) const;

  std::vector<MemoryLevel> levels_;
};

}  // namespace foretrain::ui
