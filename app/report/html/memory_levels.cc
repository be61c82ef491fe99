#include "app/report/html/memory_levels.h"

#include <algorithm>
#include <numeric>

namespace foretrain {
namespace {

std::int64_t TotalOf(const LiveMoment& moment) {
  return std::accumulate(moment.bytes.begin(), moment.bytes.end(), std::int64_t{0});
}

std::vector<LiveMoment> Thinned(std::vector<LiveMoment> moments, std::size_t max) {
  if (moments.size() <= max) return moments;
  const auto start = static_cast<double>(moments.front().time_ns);
  const double length = std::max(1.0, static_cast<double>(moments.back().time_ns) - start);
  const auto piece_of = [&](const LiveMoment& moment) {
    const double at = (static_cast<double>(moment.time_ns) - start) / length;
    return std::min(max - 1, static_cast<std::size_t>(at * static_cast<double>(max)));
  };
  std::vector<LiveMoment> kept;
  std::size_t piece = max;
  for (const LiveMoment& moment : moments) {
    const bool is_new = piece_of(moment) != piece;
    piece = piece_of(moment);
    if (is_new) {
      kept.push_back(moment);
    } else if (TotalOf(moment) > TotalOf(kept.back())) {
      kept.back() = moment;
    }
  }
  return kept;
}

}  // namespace

std::vector<MemoryLevels> LevelsOf(const Timeline& timeline, const std::vector<int>& ranks,
                                   std::size_t max_moments) {
  const std::vector<MemorySample>& samples = timeline.memory;
  std::vector<MemoryLevels> out;
  for (const int rank : ranks) {
    std::array<MemoryLevels, kSpaceCount> levels;
    auto at = std::lower_bound(samples.begin(), samples.end(), rank,
                               [](const MemorySample& sample, int of) { return sample.rank < of; });
    for (; at != samples.end() && at->rank == rank; ++at) {
      std::vector<LiveMoment>& moments = levels[static_cast<std::size_t>(at->space)].moments;
      // Samples of one moment count together.
      if (moments.empty() || moments.back().time_ns != at->time_ns) {
        moments.push_back(moments.empty() ? LiveMoment{} : moments.back());
        moments.back().time_ns = at->time_ns;
      }
      moments.back().bytes[static_cast<std::size_t>(at->category)] = at->bytes;
    }
    for (int space = 0; space < kSpaceCount; ++space) {
      MemoryLevels& of = levels[static_cast<std::size_t>(space)];
      if (of.moments.empty()) continue;
      out.push_back({rank, static_cast<Space>(space), Thinned(std::move(of.moments), max_moments)});
    }
  }
  return out;
}

}  // namespace foretrain
