#include "sim/infer/traced_step.h"

#include <algorithm>
#include <set>

#include "traces/unknown_coordinates.h"

namespace foretrain {
namespace {

constexpr double kNearlyAll = 0.8;

// The last step but one, since the profiler may have stopped within the last; -1 without any.
std::int32_t StepNumber(const Timeline& timeline) {
  std::set<std::int32_t> steps;
  for (const Span& span : timeline.spans) {
    if (span.step >= 0 && span.queue != Queue::kHost) steps.insert(span.step);
  }
  if (steps.empty()) return -1;
  return steps.size() < 3 ? *steps.rbegin() : *std::next(steps.rbegin());
}

bool HasPass(Pass pass) {
  return pass == Pass::kForward || pass == Pass::kRecompute || IsBackward(pass);
}

void AddCompute(const Timeline& timeline, const Span& span, TracedRankStep& rank) {
  TracedCompute op{.start_ns = span.start_ns, .op_class = span.op_class};
  if (IsValidId(span.op)) {
    const InstructionKey key = UnpackId(span.op);
    if (key.pass == Pass::kUpdate || key.kind == InstructionKind::kOptimizerStep) return;
    op.pass = key.pass;
    if (IsMicroBatchKnown(key)) op.micro_batch = key.micro_batch;
    const auto name = timeline.op_names.find(NameKey(span.op));
    if (name != timeline.op_names.end()) op.name = &name->second;
  }
  rank.compute.push_back(op);
}

}  // namespace

TracedStep StepToRead(const Timeline& timeline, const TracedCommunication& communication) {
  TracedStep step;
  step.groups = communication.groups;
  step.world = timeline.world;
  for (const TracedGroup& group : step.groups) {
    for (const int rank : group.ranks) step.world = std::max(step.world, rank + 1);
  }
  const std::int32_t number = StepNumber(timeline);
  std::map<int, TracedRankStep> ranks;
  for (const Span& span : timeline.spans) {
    if (span.step != number || span.queue == Queue::kHost) continue;
    step.seen[static_cast<std::size_t>(span.op_class)] = true;
    if (IsCompute(span.op_class)) AddCompute(timeline, span, ranks[span.rank]);
  }
  for (const TracedCall& call : communication.calls) {
    if (call.step != number || ranks.count(call.rank) == 0) continue;
    ranks[call.rank].calls.push_back(call);
    const TracedGroup& group = step.groups[static_cast<std::size_t>(call.group)];
    if (group.op_class == OpClass::kPpComm && call.kind == InstructionKind::kSend &&
        call.peer >= 0) {
      ++step.transfers[{call.rank, call.peer}];
    }
  }
  std::int64_t all = 0, known = 0;
  for (auto& [number_of, rank] : ranks) {
    rank.rank = number_of;
    std::stable_sort(
        rank.compute.begin(), rank.compute.end(),
        [](const TracedCompute& a, const TracedCompute& b) { return a.start_ns < b.start_ns; });
    for (const TracedCompute& op : rank.compute) {
      ++all;
      known += HasPass(op.pass) ? 1 : 0;
    }
    step.ranks.push_back(std::move(rank));
  }
  step.has_passes = all > 0 && static_cast<double>(known) >= kNearlyAll * static_cast<double>(all);
  return step;
}

}  // namespace foretrain
