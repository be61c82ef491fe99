#include "ui/view_model/timeline/critical_path.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace foretrain::ui {
namespace {

// Key that both ends of a transfer, or all members of a collective, have in common.
OpId MeetingOf(OpId op) {
  InstructionKey key = UnpackId(op);
  const bool transfer = key.kind == InstructionKind::kSend || key.kind == InstructionKind::kRecv;
  if (!transfer) return op;
  key.kind = InstructionKind::kSend;
  return PackId(key);
}

// Walks backwards along the spans that each span waited for. Two indexes make a step O(log n):
// spans by end for each rank, and communication spans that meet.
class Walker {
 public:
  // Indexes the spans of the chosen step; host spans do not take part.
  Walker(const CompareModel& model, Side side)
      : spans_(model.TimelineOf(side).spans), start_ns_(model.Of(side).step_start_ns) {
    for (std::uint32_t i = 0; i < spans_.size(); ++i) {
      const Span& span = spans_[i];
      if (span.step != model.Of(side).step || span.op_class == OpClass::kHost) continue;
      by_end_[span.rank].push_back(i);
      if (IsCommunication(span.op_class) && IsValidId(span.op)) {
        meetings_[MeetingOf(span.op)].push_back(i);
      }
    }
    for (auto& [rank, order] : by_end_) {
      std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
        return std::pair(spans_[a].end_ns, a) < std::pair(spans_[b].end_ns, b);
      });
    }
  }

  // The span that ends last on any rank.
  std::optional<std::uint32_t> Last() const {
    std::optional<std::uint32_t> last;
    for (const auto& [rank, order] : by_end_) {
      if (!last.has_value() || spans_[order.back()].end_ns > spans_[*last].end_ns) {
        last = order.back();
      }
    }
    return last;
  }

  // The parts from the last to the first.
  std::vector<PathPart> Back() const {
    std::vector<PathPart> parts;
    std::optional<std::uint32_t> at = Last();
    while (at.has_value()) {
      const Span& span = spans_[*at];
      const auto [rank, until_ns] = Before(*at);
      const std::int64_t end =
          parts.empty() ? span.end_ns : std::min(span.end_ns, parts.back().start_ns);
      const std::int64_t from = std::min(end, std::max(span.start_ns, until_ns));
      parts.push_back({*at, from, end});
      at = EndingBy(rank, std::min(until_ns, from), *at);
      if (at.has_value() && spans_[*at].end_ns <= start_ns_) break;
    }
    return parts;
  }

 private:
  // The rank that `at` had to wait for, and until when: for communication the member that arrived
  // last, otherwise its own rank.
  std::pair<int, std::int64_t> Before(std::uint32_t at) const {
    const Span& span = spans_[at];
    if (!IsCommunication(span.op_class) || !IsValidId(span.op)) return {span.rank, span.start_ns};
    const Span* last = &span;
    for (const std::uint32_t i : meetings_.at(MeetingOf(span.op))) {
      const Span& other = spans_[i];
      const bool meets = other.start_ns < span.end_ns && other.end_ns > span.start_ns;
      if (meets && other.ready_ns > last->ready_ns) last = &other;
    }
    return {last->rank, std::min(std::max(last->ready_ns, start_ns_), span.end_ns)};
  }

  // The span of `rank` that ends last at or before `time_ns`, other than `but`.
  std::optional<std::uint32_t> EndingBy(int rank, std::int64_t time_ns, std::uint32_t but) const {
    const std::vector<std::uint32_t>& order = by_end_.at(static_cast<std::int16_t>(rank));
    auto at = std::partition_point(order.begin(), order.end(),
                                   [&](std::uint32_t i) { return spans_[i].end_ns <= time_ns; });
    while (at != order.begin()) {
      --at;
      // A span without length would not lead the path back in time.
      if (*at != but && spans_[*at].start_ns < spans_[*at].end_ns) return *at;
    }
    return std::nullopt;
  }

  const std::vector<Span>& spans_;
  std::int64_t start_ns_;
  std::map<std::int16_t, std::vector<std::uint32_t>> by_end_;
  std::map<OpId, std::vector<std::uint32_t>> meetings_;
};

}  // namespace

// Turns the parts into order of time, and adds gaps between them up as waits.
CriticalPath CriticalPathOf(const CompareModel& model, Side side) {
  CriticalPath path{.side = side};
  if (!model.Of(side).IsPresent()) return path;
  path.parts = Walker(model, side).Back();
  std::reverse(path.parts.begin(), path.parts.end());
  std::int64_t before_ns = path.parts.empty() ? 0 : path.parts.front().start_ns;
  for (const PathPart& part : path.parts) {
    const OpClass of = model.TimelineOf(side).spans[part.span].op_class;
    const std::int64_t length = part.end_ns - part.start_ns;
    (IsCompute(of)         ? path.compute_ns
     : IsCommunication(of) ? path.communication_ns
                           : path.other_ns) += length;
    path.wait_ns += std::max<std::int64_t>(0, part.start_ns - before_ns);
    before_ns = part.end_ns;
  }
  return path;
}

}  // namespace foretrain::ui
