#include "traces/metrics/idle.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <tuple>

namespace foretrain {
namespace {

// Start of an op's launch on the host queue; sorted, so that a launch is found by op and step.
struct Launch {
  OpId op = kNoOp;
  std::int32_t step = 0;
  std::int64_t start_ns = 0;
};

auto LaunchKey(const Launch& launch) { return std::tie(launch.op, launch.step, launch.start_ns); }

bool LaunchBefore(const Launch& a, const Launch& b) { return LaunchKey(a) < LaunchKey(b); }

// Host spans keep the host busy and not the device.
bool OnDevice(const Span& span) { return span.op_class != OpClass::kHost; }

// Host spans without an op are not launches.
std::vector<Launch> LaunchesOf(std::span<const Span> spans) {
  std::vector<Launch> launches;
  for (const Span& span : spans) {
    if (span.queue != Queue::kHost || span.op == kNoOp) continue;
    launches.push_back({span.op, span.step, span.start_ns});
  }
  std::sort(launches.begin(), launches.end(), LaunchBefore);
  return launches;
}

// Start of the first launch of `span`'s op in its step; `nullopt` if none was recorded.
std::optional<std::int64_t> LaunchOf(const Span& span, const std::vector<Launch>& launches) {
  const Launch key{span.op, span.step, std::numeric_limits<std::int64_t>::min()};
  const auto at = std::lower_bound(launches.begin(), launches.end(), key, LaunchBefore);
  if (at == launches.end() || at->op != span.op || at->step != span.step) return std::nullopt;
  return at->start_ns;
}

// For each busy interval, the span that starts it; on a tie the first in queue order. Spans of a
// queue come in order of start, so one scan of the intervals a queue suffices.
std::vector<const Span*> StartersOf(std::span<const Span> spans, const IntervalSet& busy) {
  const std::vector<Interval>& intervals = busy.intervals();
  std::vector<const Span*> starters(intervals.size(), nullptr);
  std::size_t at = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Span& span = spans[i];
    if (i == 0 || spans[i - 1].queue != span.queue) at = 0;
    if (!OnDevice(span) || span.end_ns <= span.start_ns) continue;
    while (at < intervals.size() && intervals[at].start_ns < span.start_ns) ++at;
    if (at == intervals.size() || intervals[at].start_ns != span.start_ns) continue;
    if (starters[at] == nullptr) starters[at] = &span;
  }
  return starters;
}

}  // namespace

// Each gap is split once here; In() then only cuts gaps to the window.
RankIdle::RankIdle(std::span<const Span> spans, const IntervalSet& busy) : busy_(busy) {
  const std::vector<Launch> launches = LaunchesOf(spans);
  const std::vector<Interval>& intervals = busy.intervals();
  const std::vector<const Span*> starters = StartersOf(spans, busy);
  before_.resize(intervals.size());
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const Span& next = *starters[i];
    const std::int64_t from =
        i == 0 ? std::numeric_limits<std::int64_t>::min() : intervals[i - 1].end_ns;
    const std::int64_t to = intervals[i].start_ns;
    const bool communicates = IsCommunication(next.op_class);
    const std::int64_t ready = std::clamp(next.ready_ns, from, to);
    const std::int64_t issued =
        std::clamp(LaunchOf(next, launches).value_or(from), from, communicates ? ready : to);
    before_[i] = {.issued_ns = issued,
                  .ready_ns = std::max(issued, ready),
                  .last = communicates ? &IdleCauses::peer_ns : &IdleCauses::host_ns};
  }
}

// A gap belongs to the busy interval that follows it. A gap after the last one is the drain. O(gaps
// log intervals).
IdleCauses RankIdle::In(std::int64_t start_ns, std::int64_t end_ns) const {
  IdleCauses causes;
  const std::vector<Interval>& intervals = busy_.intervals();
  for (const Interval& gap : busy_.GapsIn(start_ns, end_ns)) {
    const auto next =
        std::lower_bound(intervals.begin(), intervals.end(), gap.end_ns,
                         [](const Interval& a, std::int64_t time) { return a.start_ns < time; });
    if (next == intervals.end()) {
      causes.drain_ns += gap.end_ns - gap.start_ns;
      continue;
    }
    const Cause& cause = before_[static_cast<std::size_t>(next - intervals.begin())];
    const std::int64_t issued = std::clamp(cause.issued_ns, gap.start_ns, gap.end_ns);
    const std::int64_t ready = std::clamp(cause.ready_ns, gap.start_ns, gap.end_ns);
    causes.host_ns += issued - gap.start_ns;
    causes.dependency_ns += ready - issued;
    causes.*cause.last += gap.end_ns - ready;
  }
  return causes;
}

}  // namespace foretrain
