#include "ui/view_model/panels/memory_curve.h"

#include <algorithm>
#include <cstddef>

namespace foretrain::ui {

// One pass over the samples: each changes one category, and samples of one moment end in one level.
MemoryCurve::MemoryCurve(std::span<const MemorySample> samples, int rank, Space space) {
  MemoryLevel now;
  for (const MemorySample& sample : samples) {
    if (sample.rank != rank || sample.space != space) continue;
    const std::int64_t bytes = std::max<std::int64_t>(0, sample.bytes);
    std::int64_t& part = now.parts[static_cast<std::size_t>(sample.category)];
    now.total_bytes += bytes - part;
    now.time_ns = sample.time_ns;
    part = bytes;
    if (levels_.empty() || levels_.back().time_ns != now.time_ns) levels_.emplace_back();
    levels_.back() = now;
  }
}

// Index of the first level that begins after `time_ns`; binary search.
std::size_t MemoryCurve::FirstAfter(double time_ns) const {
  const auto at = std::partition_point(levels_.begin(), levels_.end(), [&](const MemoryLevel& l) {
    return static_cast<double>(l.time_ns) <= time_ns;
  });
  return static_cast<std::size_t>(at - levels_.begin());
}

MemoryLevel MemoryCurve::At(double time_ns) const {
  const std::size_t i = FirstAfter(time_ns);
  return i == 0 ? MemoryLevel{} : levels_[i - 1];
}

// The level that holds at the start counts too, with the start as its moment.
MemoryLevel MemoryCurve::PeakIn(double start_ns, double end_ns) const {
  MemoryLevel peak = At(start_ns);
  peak.time_ns = static_cast<std::int64_t>(start_ns);
  for (std::size_t i = FirstAfter(start_ns); i < levels_.size(); ++i) {
    if (static_cast<double>(levels_[i].time_ns) >= end_ns) break;
    if (levels_[i].total_bytes > peak.total_bytes) peak = levels_[i];
  }
  return peak;
}

// Walks levels and columns together, so the cost does not depend on how many levels a column holds
// on average. A column starts with the level that holds at its left edge.
std::vector<MemoryColumn> MemoryCurve::Fold(double start_ns, double end_ns, int columns) const {
  std::vector<MemoryColumn> folded;
  if (levels_.empty() || !(end_ns > start_ns) || columns < 1) return folded;
  folded.reserve(static_cast<std::size_t>(columns));
  std::size_t next = FirstAfter(start_ns);
  MemoryLevel now = next == 0 ? MemoryLevel{} : levels_[next - 1];
  for (int c = 0; c < columns; ++c) {
    const double until = start_ns + (c + 1) * (end_ns - start_ns) / columns;
    MemoryColumn column{now, now.total_bytes};
    for (; next < levels_.size() && static_cast<double>(levels_[next].time_ns) <= until; ++next) {
      now = levels_[next];
      if (now.total_bytes > column.max.total_bytes) column.max = now;
      column.min_bytes = std::min(column.min_bytes, now.total_bytes);
    }
    folded.push_back(column);
  }
  return folded;
}

}  // namespace foretrain::ui
