#include "ui/view_model/runs/alignment.h"

#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {
namespace {

// Displayed start of the span of TwoRanks' op of micro-batch `mb` on `rank`.
double StartOn(const CompareModel& model, Side side, int rank, int mb) {
  for (const Span& span : model.TimelineOf(side).spans) {
    const bool compute = span.queue == Queue::kCompute;
    if (compute && span.rank == rank && UnpackId(span.op).micro_batch == mb) {
      return model.Of(side).Displayed(span.start_ns);
    }
  }
  return -1e9;
}

TEST(Alignment, PutsTheChosenOpUnderItsCounterpart) {
  const CompareInput input = TwoRanks();
  const OpId op = IdOf({.micro_batch = 1, .block = 2});
  const CompareModel model =
      ModelOf(input, {.alignment = Alignment::kSelectedOp, .anchor = Anchor{1, op}});
  EXPECT_EQ(StartOn(model, Side::kPredicted, 1, 1), 0.0);
  EXPECT_EQ(StartOn(model, Side::kMeasured, 1, 1), 0.0);
  // Rank 1's first op starts 100 before its second in the forecast, 130 before it in the
  // measurement.
  EXPECT_EQ(StartOn(model, Side::kPredicted, 1, 0), -100.0);
  EXPECT_EQ(StartOn(model, Side::kMeasured, 1, 0), -130.0);
}

TEST(Alignment, PutsAMicroBatchsFirstOpsTogether) {
  const CompareInput input = TwoRanks();
  const CompareModel model =
      ModelOf(input, {.alignment = Alignment::kMicroBatch,
                      .anchor = Anchor{1, IdOf({.micro_batch = 0, .block = 2})}});
  // Rank 1 begins micro-batch 0 at 100 and at 110.
  EXPECT_EQ(StartOn(model, Side::kPredicted, 1, 0), 0.0);
  EXPECT_EQ(StartOn(model, Side::kMeasured, 1, 0), 0.0);
  EXPECT_EQ(StartOn(model, Side::kPredicted, 0, 0), -100.0);
  EXPECT_EQ(StartOn(model, Side::kMeasured, 0, 0), -110.0);
  // Without a selection it is micro-batch 0 of the first rank.
  const CompareModel first = ModelOf(input, {.alignment = Alignment::kMicroBatch});
  EXPECT_EQ(StartOn(first, Side::kMeasured, 0, 0), 0.0);
}

TEST(Alignment, IsAtTheStepsStartWhereAnOpHasNoCounterpart) {
  const CompareInput input = TwoRanks();
  for (const OpId op : {kNoOp, IdOf({.micro_batch = 9})}) {
    const CompareModel model =
        ModelOf(input, {.alignment = Alignment::kSelectedOp, .anchor = Anchor{0, op}});
    EXPECT_EQ(StartOn(model, Side::kPredicted, 0, 0), 0.0);
    EXPECT_EQ(StartOn(model, Side::kMeasured, 0, 0), 0.0);
  }
}

TEST(Alignment, WarpsEachOpToItsCounterpartsStartAndKeepsItsLength) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input, {.alignment = Alignment::kWarp});
  EXPECT_EQ(StartOn(model, Side::kPredicted, 1, 0), 110.0);
  EXPECT_EQ(StartOn(model, Side::kPredicted, 1, 1), 240.0);
  for (const Span& span : model.TimelineOf(Side::kPredicted).spans) {
    EXPECT_EQ(span.end_ns - span.start_ns, 100);
  }
  // The input is unchanged, and the warped spans find their counterparts.
  EXPECT_EQ(input.predicted->timeline.spans[3].start_ns, 200);
  const auto counterpart = CounterpartOf(model, 1, {Side::kMeasured, 4});
  ASSERT_TRUE(counterpart.has_value());
  EXPECT_EQ(model.SpanOf(*counterpart).start_ns, 240);
}

// For any alignment, other views see the forecast's own times and memory.
TEST(Alignment, LeavesWhatOtherViewsShowAsItWasRecorded) {
  const CompareInput input = TwoRanks();
  for (int i = 0; i < kAlignmentCount; ++i) {
    const CompareModel model = ModelOf(input, {.alignment = static_cast<Alignment>(i)});
    for (const Side side : kSides) {
      EXPECT_EQ(model.recorded.Of(side).offset_ns, model.Of(side).step_start_ns);
    }
    EXPECT_EQ(model.recorded.Of(Side::kPredicted).run, &*input.predicted);
  }
}

TEST(Alignment, NeedsNoForecast) {
  CompareInput input = TwoRanks();
  input.predicted.reset();
  for (int i = 0; i < kAlignmentCount; ++i) {
    const CompareModel model = ModelOf(input, {.alignment = static_cast<Alignment>(i)});
    EXPECT_FALSE(model.HasBoth());
    EXPECT_FALSE(Name(static_cast<Alignment>(i)).empty());
  }
}

}  // namespace
}  // namespace foretrain::ui
