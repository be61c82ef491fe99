#include "traces/metrics/memory.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/result.h"

namespace foretrain {
namespace {

// The whole run, whatever its times.
constexpr std::int64_t kStart = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

using Parts = std::array<std::int64_t, kCategoryCount>;

// A sample says how many bytes of its category are live from then on, not how many were added.
void Apply(const MemorySample& sample, Parts& live) {
  live[static_cast<std::size_t>(sample.category)] = sample.bytes;
}

// Updates `peak` by the state that holds from `time_ns` on.
void Observe(const Parts& live, std::int64_t time_ns, bool first, MemoryPeak& peak) {
  const std::int64_t bytes = std::accumulate(live.begin(), live.end(), std::int64_t{0});
  if (first || bytes > peak.bytes) {
    peak.bytes = bytes;
    peak.time_ns = time_ns;
    peak.parts = live;
  }
  for (std::size_t c = 0; c < live.size(); ++c) {
    if (!first && live[c] <= peak.max[c]) continue;
    peak.max[c] = live[c];
    peak.max_time_ns[c] = time_ns;
  }
}

// Peak in [start_ns, end_ns). `live` is the state at start_ns; `samples` follow it in time. Samples
// of one moment are applied together before the state is observed, so that a transient sum of half
// of them does not count.
MemoryPeak PeakOf(std::span<const MemorySample> samples, Parts live, std::int64_t start_ns,
                  std::int64_t end_ns) {
  MemoryPeak peak;
  bool first = true;
  if (start_ns != kStart) {
    Observe(live, start_ns, first, peak);
    first = false;
  }
  for (std::size_t i = 0; i < samples.size() && samples[i].time_ns < end_ns; ++i) {
    Apply(samples[i], live);
    if (i + 1 < samples.size() && samples[i + 1].time_ns == samples[i].time_ns) continue;
    Observe(live, samples[i].time_ns, first, peak);
    first = false;
  }
  FT_CHECK(std::accumulate(peak.parts.begin(), peak.parts.end(), std::int64_t{0}) == peak.bytes);
  return peak;
}

// `samples`: of one rank and space, sorted by time; `windows`: of the rank, sorted by start.
// Windows follow each other, so one pass over the samples finds the state at each start.
void AddPeaks(std::span<const MemorySample> samples, std::span<const StepWindow> windows, int rank,
              Space space, std::vector<MemoryPeak>& result) {
  const auto add = [&](MemoryPeak peak, std::int32_t step) {
    peak.rank = rank;
    peak.space = space;
    peak.step = step;
    result.push_back(peak);
  };
  add(PeakOf(samples, {}, kStart, kEnd), -1);
  Parts live{};
  std::size_t next = 0;
  for (const StepWindow& window : windows) {
    while (next < samples.size() && samples[next].time_ns <= window.start_ns) {
      Apply(samples[next++], live);
    }
    add(PeakOf(samples.subspan(next), live, window.start_ns, window.end_ns), window.step);
  }
}

template <class T>
std::span<const T> OfRank(const std::vector<T>& sorted, std::int16_t rank) {
  T key;
  key.rank = rank;
  const auto [first, last] = std::equal_range(
      sorted.begin(), sorted.end(), key, [](const T& a, const T& b) { return a.rank < b.rank; });
  return {first, last};
}

}  // namespace

// Samples are split by space first: a window's state needs all categories of one space.
std::vector<MemoryPeak> MemoryPeaks(const Timeline& timeline) {
  std::vector<MemoryPeak> result;
  for (std::size_t i = 0; i < timeline.memory.size();) {
    const std::int16_t rank = timeline.memory[i].rank;
    std::array<std::vector<MemorySample>, kSpaceCount> by_space;
    for (; i < timeline.memory.size() && timeline.memory[i].rank == rank; ++i) {
      by_space[static_cast<std::size_t>(timeline.memory[i].space)].push_back(timeline.memory[i]);
    }
    const std::span<const StepWindow> windows = OfRank(timeline.steps, rank);
    for (std::size_t space = 0; space < by_space.size(); ++space) {
      if (by_space[space].empty()) continue;
      AddPeaks(by_space[space], windows, rank, static_cast<Space>(space), result);
    }
  }
  std::stable_sort(result.begin(), result.end(), [](const MemoryPeak& a, const MemoryPeak& b) {
    return std::tie(a.rank, a.space, a.step) < std::tie(b.rank, b.space, b.step);
  });
  return result;
}

}  // namespace foretrain
