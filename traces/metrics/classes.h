// A rank's time by class: exclusive classes that sum exactly to a window, and the share of
// communication that is hidden. Causes of idle time are in traces/metrics/idle.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "traces/metrics/intervals.h"
#include "traces/timeline.h"

namespace foretrain {

// Time of one rank in one window, each moment in one class only. C, N, M, H: the unions of compute,
// communication, copy and host spans, cut to the window.
struct ClassTimes {
  std::int64_t compute_ns = 0;                // C
  std::int64_t exposed_communication_ns = 0;  // C u N minus C
  std::int64_t exposed_copy_ns = 0;           // C u N u M minus C u N
  std::int64_t host_ns = 0;                   // C u N u M u H minus C u N u M
  std::int64_t idle_ns = 0;                   // the rest of the window

  std::int64_t Sum() const {
    return compute_ns + exposed_communication_ns + exposed_copy_ns + host_ns + idle_ns;
  }
  bool operator==(const ClassTimes&) const = default;
};

// The classes of one rank over its whole timeline: built once, then queried for any window.
class RankClasses {
 public:
  // `spans`: those of one rank, sorted as in Timeline. A span counts by its op class, whatever its
  // queue or step. O(n) if spans of a queue do not overlap, else O(n log n).
  explicit RankClasses(std::span<const Span> spans);

  // The exclusive classes in [start_ns, end_ns); their sum is its length. O(log n).
  ClassTimes In(std::int64_t start_ns, std::int64_t end_ns) const;

  // By op class: time in which a span of the class runs and no span of an earlier class in OpClass.
  // gemm + attention + memory_bound = compute, and so on. O(log n).
  std::array<std::int64_t, kOpClassCount> ExclusiveIn(std::int64_t start_ns,
                                                      std::int64_t end_ns) const;

  // Length of each op class's own union: overlapping classes count twice. O(log n).
  std::array<std::int64_t, kOpClassCount> BusyIn(std::int64_t start_ns, std::int64_t end_ns) const;

  // Length of N, the union of all communication. O(log n).
  std::int64_t CommunicationIn(std::int64_t start_ns, std::int64_t end_ns) const;

  // Share of the communication that overlaps with compute, |C n N| / |N|, in [0, 1]; `nullopt`
  // without communication. O(log n).
  std::optional<double> OverlapIn(std::int64_t start_ns, std::int64_t end_ns) const;

  // All activity on the device: C u N u M.
  const IntervalSet& DeviceBusy() const;

 private:
  const IntervalSet& Cumulative(OpClass c) const;

  std::array<IntervalSet, kOpClassCount> own_;
  std::array<IntervalSet, kOpClassCount> cumulative_;  // [c]: union of own_[0] to own_[c]
  IntervalSet communication_;
};

// The spans of `rank`: a view into a sorted timeline. O(log n).
std::span<const Span> SpansOfRank(const Timeline& timeline, int rank);

}  // namespace foretrain
