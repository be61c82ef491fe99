// Why a device stands still: each gap is put down to an input that came late, a peer that came
// late, or a host that issued late. Leaves out which predecessor it was, which takes the program's
// edges.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "traces/metrics/intervals.h"
#include "traces/timeline.h"

namespace foretrain {

// Time with nothing on the device, by cause. The sum is host_ns + idle_ns of ClassTimes.
struct IdleCauses {
  std::int64_t dependency_ns = 0;  // the inputs of the next op were not there
  std::int64_t peer_ns = 0;        // this rank had arrived, its peers had not
  std::int64_t host_ns = 0;        // the next op was issued late, or was being launched
  std::int64_t drain_ns = 0;       // nothing follows in the timeline

  std::int64_t Sum() const { return dependency_ns + peer_ns + host_ns + drain_ns; }
  bool operator==(const IdleCauses&) const = default;
};

// The causes of one rank's gaps, found once and asked for any window.
//
// A maximal gap [g0, g1) is ended by the op k that starts at g1. D = k's ready_ns; L = start of the
// span on the host queue with k's op id and step, unknown where there is none; both held to the
// gap.
//   k computes or copies: [g0, max(D, L)) is host wait if L is known and L >= D, else dependency
//   wait;
//                         [max(D, L), g1) is host wait: its launch was under way
//   k communicates:       [g0, D) is host wait if L >= D, else dependency wait; [D, g1) is peer
//   wait
// Of several ops that start together the first in queue order is k.
class RankIdle {
 public:
  // `spans`: those of one rank, sorted as in Timeline; `busy`: RankClasses::DeviceBusy() of them,
  // which must outlive this. O(n log n) in the number of host spans, else O(n).
  RankIdle(std::span<const Span> spans, const IntervalSet& busy);

  // The causes in [start_ns, end_ns). O(log n + gaps in the window).
  IdleCauses In(std::int64_t start_ns, std::int64_t end_ns) const;

 private:
  // A gap [g0, g1): first `late` up to `split_ns`, then `last`.
  struct Cause {
    std::int64_t split_ns = 0;
    std::int64_t IdleCauses::*late = nullptr;
    std::int64_t IdleCauses::*last = nullptr;
  };

  const IntervalSet& busy_;
  std::vector<Cause> before_;  // [i]: the gap before busy interval i
};

}  // namespace foretrain
