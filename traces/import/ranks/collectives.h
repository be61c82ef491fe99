// Joins several ranks' traces by their communication: matches the calls of one communication,
// aligns the ranks' clocks by them, and splits each call into waiting for peers and moving bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/timeline.h"

namespace foretrain::trace_import {

// A communication of one rank, in the order of execution.
struct CommunicationCall {
  std::size_t span = 0;  // index into the rank's spans
  std::int32_t step = 0;
  std::string
      group{};      // equal on its members and no other group; a send and its receive have one too
  int members = 0;  // of the group; 0: unknown
};

// One rank of a trace.
struct TracedRank {
  int rank = 0;
  std::vector<Span>* spans = nullptr;  // by start
  std::vector<CommunicationCall> calls{};
};

// The calls of one communication by all members of its group.
struct Match {
  struct Call {
    int traced = 0;        // index into the traced ranks
    std::size_t span = 0;  // index into its spans
  };
  std::vector<Call> calls;
  bool point_to_point = false;
};

// The n-th calls of a group in a step belong together if all its members were traced and have
// equally many there. O(n log n) in the calls.
std::vector<Match> MatchCalls(const std::vector<TracedRank>& ranks);

// A rank's clock against that of the first rank that it can be compared with.
struct ClockFit {
  std::int64_t offset_ns = 0;  // to subtract from the rank's times at origin_ns
  double drift = 0;            // more for each nanosecond since then
  std::int64_t origin_ns = 0;
  std::int64_t error_ns = 0;  // median distance of the ends of a match from each other, after it
  std::size_t samples = 0;    // matches that it rests on; 0: the rank cannot be compared

  bool IsUsed() const { return offset_ns != 0 || drift != 0; }
  std::int64_t Aligned(std::int64_t time_ns) const;
};

// The clocks of all ranks. A communication ends on all its members at about the same time, so the
// median difference of ends is the clocks' offset; a drift is the median slope. Offsets and
// drifts below 10 us and three times their error are left at 0. Point-to-point matches count only
// where no collective joins the ranks.
std::vector<ClockFit> FitClocks(const std::vector<TracedRank>& ranks,
                                const std::vector<Match>& matches);

// A matched call arrives (ready_ns) where its kernel began, and begins where the last member's did.
void SplitWaits(const std::vector<TracedRank>& ranks, const std::vector<Match>& matches);

}  // namespace foretrain::trace_import
