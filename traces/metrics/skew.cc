#include "traces/metrics/skew.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "traces/metrics/classes.h"
#include "traces/metrics/intervals.h"

namespace foretrain {
namespace {

// Instructions that communicate in the queue's group; reductions of scalars use other groups.
bool IsOfGroup(InstructionKind kind) {
  return kind == InstructionKind::kBlock || kind == InstructionKind::kSend ||
         kind == InstructionKind::kRecv || kind == InstructionKind::kAllReduce ||
         kind == InstructionKind::kReduceScatter || kind == InstructionKind::kAllGather;
}

// {queue, group, op}. A receive counts as its send, and both as one queue, so that they meet.
using Exchange = std::tuple<Queue, int, OpId>;

Exchange ExchangeOf(const CommunicationGroups& groups, const Span& span) {
  if (!IsTransfer(span.queue)) return {span.queue, GroupOf(groups, span), span.op};
  return {Queue::kSendNext, GroupOf(groups, span), SendOf(span.op)};
}

struct Arrivals {
  std::int64_t last_ns = 0;
  std::vector<int> ranks;  // that have come
};

// Collects, for each collective or transfer, the ranks that started it and the latest start. Only
// an exchange with all members has a known last arrival.
class LastArrivals {
 public:
  LastArrivals(const Timeline& timeline, const CommunicationGroups& groups, std::int32_t step)
      : groups_(groups) {
    for (const Span& span : timeline.spans) {
      if (span.step != step || !IsCommunication(span.op_class)) continue;
      if (GroupOf(groups, span) < 0) continue;
      Arrivals& arrivals = of_[ExchangeOf(groups, span)];
      // A later span of the same op and rank continues the first one.
      if (std::find(arrivals.ranks.begin(), arrivals.ranks.end(), span.rank) !=
          arrivals.ranks.end()) {
        continue;
      }
      arrivals.last_ns =
          arrivals.ranks.empty() ? span.start_ns : std::max(arrivals.last_ns, span.start_ns);
      arrivals.ranks.push_back(span.rank);
    }
    CountMembers();
  }

  // Last arrival in the span's group, clamped to the span, and whether it is known.
  std::pair<std::int64_t, bool> Of(const Span& span) const {
    if (GroupOf(groups_, span) < 0) return {span.end_ns, false};
    const auto at = of_.find(ExchangeOf(groups_, span));
    if (at == of_.end()) return {span.end_ns, false};
    const std::size_t members =
        IsTransfer(span.queue) ? 2 : members_.at({span.queue, GroupOf(groups_, span)});
    if (at->second.ranks.size() < members) return {span.end_ns, false};
    return {std::clamp(at->second.last_ns, span.start_ns, span.end_ns), true};
  }

 private:
  // The size of each group, to tell when all members have arrived.
  void CountMembers() {
    for (std::size_t q = 0; q < groups_.of.size(); ++q) {
      for (const int group : groups_.of[q]) {
        if (group >= 0) ++members_[{static_cast<Queue>(q), group}];
      }
    }
  }

  const CommunicationGroups& groups_;
  std::map<Exchange, Arrivals> of_;
  std::map<std::pair<Queue, int>, std::size_t> members_;
};

// Splits the exposed communication by unions: compute, then wire time, then unknown, then the rest.
// Each moment counts once, in the first set that covers it.
ExposedParts PartsOf(std::span<const Span> spans, const LastArrivals& arrivals,
                     const StepWindow& window, bool together) {
  std::vector<Interval> compute, wire, unknown, all;
  for (const Span& span : spans) {
    const Interval whole{span.start_ns, span.end_ns};
    if (IsCompute(span.op_class)) compute.push_back(whole);
    if (!IsCommunication(span.op_class)) continue;
    all.push_back(whole);
    const auto [last_ns, known] = together ? std::pair(span.start_ns, true) : arrivals.Of(span);
    if (known) wire.push_back({last_ns, span.end_ns});
    if (!known) unknown.push_back(whole);
  }
  const IntervalSet computes(std::move(compute));
  const IntervalSet moves = computes.United(IntervalSet(std::move(wire)));
  const IntervalSet known = moves.United(IntervalSet(std::move(unknown)));
  const IntervalSet runs = known.United(IntervalSet(std::move(all)));
  const auto in = [&window](const IntervalSet& set) {
    return set.LengthIn(window.start_ns, window.end_ns);
  };
  return {.wire_ns = in(moves)-in(computes),
          .skew_ns = in(runs)-in(known),
          .unknown_ns = in(known)-in(moves)};
}

}  // namespace

int GroupOf(const CommunicationGroups& groups, const Span& span) {
  if (!IsValidId(span.op) || !IsOfGroup(UnpackId(span.op).kind)) return -1;
  const std::vector<int>& of = groups.of[static_cast<std::size_t>(span.queue)];
  const auto rank = static_cast<std::size_t>(span.rank);
  return rank < of.size() ? of[rank] : -1;
}

OpId SendOf(OpId transfer) {
  InstructionKey key = UnpackId(transfer);
  key.kind = InstructionKind::kSend;
  return PackId(key);
}

ExposedParts& ExposedParts::operator+=(const ExposedParts& other) {
  wire_ns += other.wire_ns;
  skew_ns += other.skew_ns;
  unknown_ns += other.unknown_ns;
  return *this;
}

// Summed over the ranks. Arrivals are collected once for the step, since each rank's parts need
// those of its peers.
ExposedParts ExposedPartsOf(const Timeline& timeline, const CommunicationGroups& groups,
                            std::int32_t step, bool together) {
  const LastArrivals arrivals(timeline, groups, step);
  ExposedParts sum;
  for (const StepWindow& window : timeline.steps) {
    if (window.step != step) continue;
    sum += PartsOf(SpansOfRank(timeline, window.rank), arrivals, window, together);
  }
  return sum;
}

}  // namespace foretrain
