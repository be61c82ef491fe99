// Causes of idle devices: each gap is attributed to a late input, a late peer or a late launch. It
// does not name the predecessor, which needs the program's edges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/metrics/intervals.h"
#include "traces/timeline.h"

namespace foretrain {

// Time without work on the device, by cause. The sum is host_ns + idle_ns of ClassTimes.
struct IdleCauses {
  std::int64_t dependency_ns = 0;  // inputs of the next op were not ready
  std::int64_t peer_ns = 0;        // this rank had arrived, its peers had not
  std::int64_t host_ns = 0;        // the next op was issued late, or its launch was under way
  std::int64_t drain_ns = 0;       // nothing follows in the timeline

  std::int64_t Sum() const { return dependency_ns + peer_ns + host_ns + drain_ns; }
  bool operator==(const IdleCauses&) const = default;
};

// Causes of one rank's gaps: found once, then queried for any window.
//
// A maximal gap [g0, g1) ends with the op k that starts at g1. L is the start of the host-queue
// span with k's op id and step; unknown, it is g0. D is k's ready_ns. Both are clamped to the gap,
// and L to D if k communicates.
//
//   [g0, L)         host wait: k was not issued yet
//   [L, D)          dependency wait, if L < D
//   [max(L, D), g1) k computes or copies: host wait, the launch was under way
//                   k communicates: peer wait
//
// If several ops start together, k is the first in queue order.
class RankIdle {
 public:
  // `spans`: those of one rank, sorted as in Timeline. `busy`: RankClasses::DeviceBusy() of them,
  // which must outlive this. O(n log n) in the number of host spans, else O(n).
  RankIdle(std::span<const Span> spans, const IntervalSet& busy);

  // The causes in [start_ns, end_ns). O(log n + gaps in the window).
  IdleCauses In(std::int64_t start_ns, std::int64_t end_ns) const;

 private:
  // Split of a gap: host wait up to `issued_ns`, dependency wait up to `ready_ns`, then `last`.
  struct Cause {
    std::int64_t issued_ns = 0;
    std::int64_t ready_ns = 0;  // >= issued_ns
    std::int64_t IdleCauses::*last = nullptr;
  };

  const IntervalSet& busy_;
  std::vector<Cause> before_;  // [i]: the gap before busy interval i
};

}  // namespace foretrain
