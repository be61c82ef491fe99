#include "tests/ui/hand_made.h"

#include <algorithm>
#include <utility>

namespace foretrain {

OpId IdOf(const Place& place) {
  return PackId({.pass = place.pass, .block = place.block, .micro_batch = place.micro_batch},
                place.op);
}

Span ComputeSpan(const Place& place, std::int64_t start_ns, std::int64_t end_ns, OpClass op_class) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = IdOf(place),
          .ready_ns = start_ns,
          .step = place.step,
          .rank = static_cast<std::int16_t>(place.rank),
          .queue = Queue::kCompute,
          .op_class = op_class};
}

Span SendSpan(const Place& place, std::int64_t start_ns, std::int64_t end_ns) {
  Span span = ComputeSpan(place, start_ns, end_ns, OpClass::kPpComm);
  span.op = PackId({.kind = InstructionKind::kSend,
                    .pass = place.pass,
                    .block = place.block,
                    .micro_batch = place.micro_batch},
                   0);
  span.queue = Queue::kSendNext;
  span.bytes = 1000;
  return span;
}

RunView RunOfSpans(std::vector<Span> spans) {
  RunView run;
  run.timeline.spans = std::move(spans);
  for (const Span& span : run.timeline.spans) {
    run.timeline.world = std::max(run.timeline.world, span.rank + 1);
  }
  SortTimeline(run.timeline);
  DeriveSteps(run.timeline);
  return run;
}

CompareInput TwoRanks() {
  const auto at = [](int rank, int micro_batch) {
    return Place{.rank = rank, .micro_batch = micro_batch, .block = 1 + rank};
  };
  CompareInput input;
  input.predicted = RunOfSpans({ComputeSpan(at(0, 0), 0, 100), ComputeSpan(at(0, 1), 100, 200),
                                ComputeSpan(at(1, 0), 100, 200), ComputeSpan(at(1, 1), 200, 300)});
  input.measured = RunOfSpans({ComputeSpan(at(0, 0), 1000, 1100), ComputeSpan(at(0, 1), 1100, 1240),
                               SendSpan(at(0, 0), 1100, 1150), ComputeSpan(at(1, 0), 1110, 1200),
                               ComputeSpan(at(1, 1), 1240, 1350)});
  for (RunView* run : {&*input.predicted, &*input.measured}) {
    run->layers = 2;
    run->metrics.pipelines = {{0, 1}};
    run->timeline.op_names[NameKey(IdOf(at(0, 0)))] = "mlp";
    run->timeline.op_names[NameKey(IdOf(at(1, 0)))] = "mlp";
  }
  return input;
}

ui::CompareModel ModelOf(const CompareInput& input, const ui::CompareOptions& options) {
  return ui::BuildCompareModel(input, ui::FactsOf(input), options);
}

}  // namespace foretrain
