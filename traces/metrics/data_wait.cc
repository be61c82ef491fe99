#include "traces/metrics/data_wait.h"

#include <utility>
#include <vector>

#include "traces/metrics/classes.h"
#include "traces/metrics/intervals.h"

namespace foretrain {

bool IsDataWait(OpId op) {
  return IsValidId(op) && OpNumber(op) == kDataWaitOp &&
         UnpackId(op).kind == InstructionKind::kLoadBatch;
}

// Exposed is what the waits add to the time in which the device works: |busy u waits| - |busy|.
DataWait DataWaitOf(const Timeline& timeline, std::int32_t step) {
  DataWait sum;
  for (const StepWindow& window : timeline.steps) {
    if (window.step != step) continue;
    sum.window_ns += window.end_ns - window.start_ns;
    const std::span<const Span> spans = SpansOfRank(timeline, window.rank);
    std::vector<Interval> found;
    for (const Span& span : spans) {
      if (IsDataWait(span.op)) found.push_back({span.start_ns, span.end_ns});
    }
    if (found.empty()) continue;
    const IntervalSet waits(std::move(found));
    const RankClasses classes(spans);
    const IntervalSet& busy = classes.DeviceBusy();
    const std::int64_t start_ns = window.start_ns, end_ns = window.end_ns;
    sum.waited_ns += waits.LengthIn(start_ns, end_ns);
    sum.exposed_ns +=
        busy.United(waits).LengthIn(start_ns, end_ns) - busy.LengthIn(start_ns, end_ns);
  }
  return sum;
}

}  // namespace foretrain
