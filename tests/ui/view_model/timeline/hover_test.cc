#include "ui/view_model/timeline/hover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"
#include "traces/unknown_coordinates.h"

namespace foretrain::ui {
namespace {

using testing::HasSubstr;

std::string ValueOf(const HoverText& text, std::string_view name) {
  for (const HoverLine& line : text.lines) {
    if (line.name == name) return line.value;
  }
  return "(none)";
}

// The span of `side` for micro-batch `micro_batch` on the compute queue of `rank`.
SpanRef RefOf(const CompareModel& model, Side side, int rank, int micro_batch) {
  const std::vector<Span>& spans = model.TimelineOf(side).spans;
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    const bool there = spans[i].rank == rank && spans[i].queue == Queue::kCompute;
    if (there && UnpackId(spans[i].op).micro_batch == micro_batch) return {side, i};
  }
  return {};
}

TEST(Hover, SaysBothTimesAndTheirDifference) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  const HoverText text = HoverOfSpan(model, 0, RefOf(model, Side::kMeasured, 0, 1));
  EXPECT_EQ(text.title, "mlp");
  EXPECT_EQ(text.subtitle, "forward layer 1 mb 1");
  EXPECT_EQ(ValueOf(text, "predicted"), "100 ns");
  EXPECT_EQ(ValueOf(text, "measured"), "140 ns");
  EXPECT_EQ(ValueOf(text, "error"), "+40.0 ns, +40.0 %");
  EXPECT_EQ(ValueOf(text, "drift here"), "+40.0 ns");
  EXPECT_EQ(ValueOf(text, "before it"), "(none)");
  EXPECT_THAT(ValueOf(text, "place"), HasSubstr("rank 0, compute queue, step 0"));
  // The forecast's span shows the same.
  const HoverText counterpart = HoverOfSpan(model, 0, RefOf(model, Side::kPredicted, 0, 1));
  EXPECT_EQ(ValueOf(counterpart, "error"), "+40.0 ns, +40.0 %");
}

TEST(Hover, NamesTheKernelsOfAnOpAndTheirLaunches) {
  CompareInput input = TwoRanks();
  KernelTable& kernels = input.measured->kernels;
  kernels.capability = 90;
  // 255 registers: 8 of 64 warps.
  kernels.rows = {{"void ns::gemm<8>(float*)",
                   {.grid = {64, 2, 1}, .block = {128, 1, 1}, .registers = 255},
                   10,
                   900},
                  {"ns::split(float*)", {}, 10, 100}};
  const OpId op = IdOf({.micro_batch = 0});
  kernels.Own(op, 0);
  const CompareModel model = ModelOf(input);
  const SpanRef ref = RefOf(model, Side::kMeasured, 0, 1);
  EXPECT_EQ(ValueOf(HoverOfSpan(model, 0, ref), "kernel"), "gemm");
  const HoverText details = DetailsOfSpan(model, 0, ref);
  EXPECT_EQ(ValueOf(details, "launch"), "grid 64 x 2, block 128, 255 registers");
  EXPECT_EQ(ValueOf(details, "occupancy"), "12.5 % (registers)");
  // The forecast knows no kernels.
  const SpanRef forecast = RefOf(model, Side::kPredicted, 0, 1);
  EXPECT_EQ(ValueOf(DetailsOfSpan(model, 0, forecast), "launch"), "(none)");
  // A kernel whose launch was not recorded has its name only.
  input.measured->kernels.Own(op, 1);
  const CompareModel both = ModelOf(input);
  EXPECT_EQ(ValueOf(HoverOfSpan(both, 0, ref), "kernels"), "gemm and 1 more");
}

TEST(Hover, SaysThatACounterpartIsMissing) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  const std::uint32_t send = 2;  // after the two compute spans of rank 0
  ASSERT_EQ(model.SpanOf({Side::kMeasured, send}).queue, Queue::kSendNext);
  const HoverText text = HoverOfSpan(model, 0, {Side::kMeasured, send});
  EXPECT_EQ(text.title, "send forward layer 1 mb 0 op 0");
  EXPECT_EQ(ValueOf(text, "measured"), "50.0 ns");
  EXPECT_EQ(ValueOf(text, "counterpart"), "none");
  // 1,000 bytes in 50 ns.
  EXPECT_EQ(ValueOf(text, "moves"), "1000 B");
  EXPECT_EQ(ValueOf(text, "measured rate"), "20.0 GB/s");
}

TEST(Hover, PutsTheWaitBeforeASpanDownToItsCause) {
  CompareInput input = TwoRanks();
  // Rank 1 waits from 1200 to 1240; its input arrives at 1230, and it was launched long before.
  for (Span& span : input.measured->timeline.spans) {
    if (span.rank == 1 && span.start_ns == 1240) span.ready_ns = 1230;
  }
  Span launch = ComputeSpan({.rank = 1, .micro_batch = 1, .block = 2}, 1000, 1005, OpClass::kHost);
  launch.queue = Queue::kHost;
  input.measured->timeline.spans.push_back(launch);
  SortTimeline(input.measured->timeline);
  const CompareModel model = ModelOf(input);
  const SpanRef ref = RefOf(model, Side::kMeasured, 1, 1);
  // RankIdle: a dependency wait until the input arrives, then the launch in progress.
  EXPECT_EQ(ValueOf(HoverOfSpan(model, 1, ref), "before it"),
            "30.0 ns dependency wait, 10.0 ns host wait");
  const auto gap = HoverOfGap(model, 1, Side::kMeasured, 220.0);
  ASSERT_TRUE(gap.has_value());
  EXPECT_EQ(gap->title, "nothing to compute, 40.0 ns");
  EXPECT_THAT(ValueOf(*gap, "cause"), HasSubstr("30.0 ns dependency wait"));
  EXPECT_EQ(ValueOf(*gap, "ended by"), "mlp of forward layer 2 mb 1");
  EXPECT_FALSE(HoverOfGap(model, 1, Side::kMeasured, 150.0).has_value());  // a span runs
  EXPECT_FALSE(HoverOfGap(model, 1, Side::kMeasured, 900.0).has_value());  // nothing follows
}

TEST(Hover, CountsCommunicationInAGap) {
  CompareInput input = TwoRanks();
  Span receive = SendSpan({.rank = 1, .micro_batch = 1, .block = 1}, 1210, 1240);
  receive.queue = Queue::kRecvPrev;
  input.measured->timeline.spans.push_back(receive);
  SortTimeline(input.measured->timeline);
  const CompareModel model = ModelOf(input);
  const std::string before =
      ValueOf(HoverOfSpan(model, 1, RefOf(model, Side::kMeasured, 1, 1)), "before it");
  EXPECT_THAT(before, HasSubstr("30.0 ns communication"));
}

TEST(Hover, NamesSlotsAndInstructions) {
  const OpId backward = IdOf({.micro_batch = 4, .block = 3, .pass = Pass::kBackward});
  EXPECT_EQ(SlotLabel(backward, false), "B4");
  EXPECT_EQ(SlotLabel(backward, true), "backward mb 4");
  EXPECT_EQ(SlotLabel(IdOf({.micro_batch = 2}), false), "F2");
  EXPECT_EQ(SlotLabel(PackId({.kind = InstructionKind::kOptimizerStep}), true), "update");
  EXPECT_EQ(SlotLabel(kNoOp, true), "");
  EXPECT_EQ(SlotLabel(PackId({.kind = InstructionKind::kSend}), true), "");
  RunView run;
  EXPECT_EQ(InstructionLabel(run, backward), "block 3");
  run.layers = 3;
  EXPECT_EQ(InstructionLabel(run, backward), "layer 3");
  EXPECT_EQ(InstructionLabel(run, IdOf({.block = 4})), "head");
  EXPECT_EQ(InstructionLabel(run, IdOf({.block = 0})), "embedding");
}

TEST(Hover, LeavesOutWhatATraceDoesNotSay) {
  const OpId call = IdOf({.micro_batch = kUnknownMicroBatch + 7, .block = kUnknownBlock});
  EXPECT_EQ(SlotLabel(call, false), "F");
  EXPECT_EQ(SlotLabel(call, true), "forward");
  EXPECT_EQ(InstructionLabel(RunView(), call), "");
  EXPECT_EQ(Describe(call), "forward call 7");
}

TEST(Hover, IsSafeForSpansWithoutAnOp) {
  CompareInput input = TwoRanks();
  Span unknown = ComputeSpan({}, 1240, 1260);
  unknown.op = kNoOp;
  input.measured->timeline.spans = {unknown};
  const CompareModel model = ModelOf(input);
  const HoverText text = HoverOfSpan(model, 0, {Side::kMeasured, 0});
  EXPECT_EQ(text.title, "not part of the program");
  EXPECT_EQ(ValueOf(text, "measured"), "20.0 ns");
}

}  // namespace
}  // namespace foretrain::ui
