#include "traces/timeline.h"

#include <algorithm>
#include <tuple>

namespace foretrain {
namespace {

// Ties after (rank, queue, start_ns) are broken too, so that equal timelines sort to equal bytes.
auto SpanKey(const Span& span) {
  return std::tuple(span.rank, span.queue, span.start_ns, span.end_ns, span.step, span.op);
}

constexpr OpId kMicroBatchMask = ((OpId{1} << 18) - 1) << 24;

}  // namespace

void SortTimeline(Timeline& timeline) {
  const auto by_key = [](const Span& a, const Span& b) { return SpanKey(a) < SpanKey(b); };
  if (!std::is_sorted(timeline.spans.begin(), timeline.spans.end(), by_key)) {
    std::sort(timeline.spans.begin(), timeline.spans.end(), by_key);
  }
  std::stable_sort(timeline.memory.begin(), timeline.memory.end(),
                   [](const MemorySample& a, const MemorySample& b) {
                     return std::tie(a.rank, a.time_ns) < std::tie(b.rank, b.time_ns);
                   });
  std::stable_sort(
      timeline.steps.begin(), timeline.steps.end(), [](const StepWindow& a, const StepWindow& b) {
        return std::tie(a.rank, a.start_ns, a.step) < std::tie(b.rank, b.start_ns, b.step);
      });
}

OpId NameKey(OpId op) { return op < 0 ? op : op & ~kMicroBatchMask; }

}  // namespace foretrain
