// A timeline as a bounded number of rectangles, for pages that must stay small whatever the length
// of the run: spans where there is room for them, and sums of neighbours elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "traces/span_sums.h"
#include "traces/timeline.h"

namespace foretrain {

// One span, or several that follow each other.
struct LaneRectangle {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t spans = 1;
  std::int64_t busy_ns = 0;    // sum of the spans' lengths
  Work work = Work::kForward;  // that with most of the time
  const Span* span = nullptr;  // into the timeline if it is one span; else null
};

// The rectangles of one queue of a rank, by time; they do not overlap.
struct Lane {
  int rank = 0;
  Queue queue = Queue::kCompute;
  std::vector<LaneRectangle> rectangles{};
};

// A part of a timeline, in nanoseconds: [start, end).
struct LaneWindow {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct LaneOptions {
  LaneWindow window{};              // spans that begin elsewhere are left out
  LaneWindow detail{};              // shown with three quarters of the rectangles; may be empty
  std::int64_t max_rectangles = 0;  // of all lanes together; each has at least 16
};

// `max` of the ranks of a timeline, evenly spaced, with the first and the last; all if they are
// fewer. Ascending.
std::vector<int> ShownRanks(const Timeline& timeline, std::size_t max);

// The lanes of `ranks` with spans in the window, by rank and queue. The timeline must be sorted and
// outlive the result. If a lane has more spans than its share of rectangles, those of the detailed
// window are kept first; the rest is cut into equal pieces of time, and spans that begin in one
// piece are one rectangle. O(spans of the ranks).
std::vector<Lane> LanesOf(const Timeline& timeline, const std::vector<int>& ranks,
                          const LaneOptions& options);

}  // namespace foretrain
