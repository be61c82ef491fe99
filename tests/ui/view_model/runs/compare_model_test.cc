#include "ui/view_model/runs/compare_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Steps of 10, 30 and 20 ns on one rank.
RunView ThreeSteps() {
  return RunOfSpans({ComputeSpan({.step = 0}, 0, 10), ComputeSpan({.step = 1}, 10, 40),
                     ComputeSpan({.step = 2}, 40, 60)});
}

TEST(CompareModel, ShowsTheMedianStepByDefault) {
  CompareInput input;
  input.measured = ThreeSteps();
  const CompareModel model = ModelOf(input);
  EXPECT_EQ(model.Of(Side::kMeasured).step, 2);
  EXPECT_THAT(model.Of(Side::kMeasured).steps, ElementsAre(0, 1, 2));
  EXPECT_EQ(model.Of(Side::kMeasured).step_start_ns, 40);
  EXPECT_EQ(ModelOf(input, {.measured_step = 1}).Of(Side::kMeasured).step_end_ns, 40);
  // An unknown step selects the median one.
  EXPECT_EQ(ModelOf(input, {.measured_step = 9}).Of(Side::kMeasured).step, 2);
}

TEST(CompareModel, AlignsStepsAtTheirStart) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  EXPECT_EQ(model.Of(Side::kPredicted).offset_ns, 0);
  EXPECT_EQ(model.Of(Side::kMeasured).offset_ns, 1000);
  EXPECT_DOUBLE_EQ(model.Of(Side::kMeasured).Displayed(1350), 350.0);
  EXPECT_DOUBLE_EQ(model.Of(Side::kMeasured).Own(350.0), 1350.0);
  EXPECT_DOUBLE_EQ(model.extent.end_ns, 350.0);
}

TEST(CompareModel, AlignsRunsByWallClock) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input, {.alignment = Alignment::kWallClock});
  EXPECT_EQ(model.Of(Side::kMeasured).offset_ns, 0);
  EXPECT_DOUBLE_EQ(model.extent.start_ns, 0.0);
  EXPECT_DOUBLE_EQ(model.extent.end_ns, 1350.0);
  // Drift is still relative to the start of the step.
  EXPECT_EQ(model.lanes[1].drift.back().drift_ns, 50);
}

TEST(CompareModel, HasALaneForEachRankWithItsStage) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  ASSERT_EQ(model.lanes.size(), 2U);
  EXPECT_EQ(model.lanes[1].name, "rank 1");
  EXPECT_EQ(model.lanes[1].detail, "stage 1");
  const std::vector<Row>& rows = model.lanes[0].rows[Index(Side::kMeasured)];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_TRUE(rows[0].compute);
  EXPECT_EQ(rows[0].tracks.at(0).size(), 2U);
  EXPECT_EQ(rows[1].tracks.at(0).size(), 1U);  // the send
  EXPECT_THAT(model.lanes[0].rows[Index(Side::kPredicted)].at(1).tracks, IsEmpty());
}

TEST(CompareModel, HasARowForEachQueueWhereAsked) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input, {.rows = LaneRows::kQueues});
  const std::vector<Row>& rows = model.lanes[0].rows[Index(Side::kPredicted)];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "compute");
  EXPECT_EQ(rows[1].name, "send+1");
  EXPECT_EQ(model.lanes[1].rows[Index(Side::kPredicted)].size(), 1U);
}

TEST(CompareModel, ListsTheWorstErrorsFirst) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  // mb 1 of rank 0 takes 140 instead of 100, of rank 1 110; mb 0 of rank 1 90.
  ASSERT_EQ(model.worst.size(), 4U);
  EXPECT_EQ(model.pairs[model.worst[0]].ErrorNs(), 40);
  EXPECT_EQ(std::abs(model.pairs[model.worst[1]].ErrorNs()), 10);
  EXPECT_EQ(model.pairs[model.worst[3]].ErrorNs(), 0);
}

TEST(CompareModel, FindsCounterpartsBothWays) {
  const CompareInput input = TwoRanks();
  const CompareModel model = ModelOf(input);
  for (std::uint32_t i = 0; i < input.predicted->timeline.spans.size(); ++i) {
    const SpanRef predicted{Side::kPredicted, i};
    const int rank = model.SpanOf(predicted).rank;
    const auto measured = CounterpartOf(model, rank, predicted);
    ASSERT_TRUE(measured.has_value());
    EXPECT_EQ(model.SpanOf(*measured).op, model.SpanOf(predicted).op);
    EXPECT_EQ(CounterpartOf(model, rank, *measured), predicted);
  }
  const auto is_send = [](const Span& span) { return span.queue == Queue::kSendNext; };
  const std::vector<Span>& spans = input.measured->timeline.spans;
  const auto send = std::find_if(spans.begin(), spans.end(), is_send) - spans.begin();
  EXPECT_EQ(CounterpartOf(model, 0, {Side::kMeasured, static_cast<std::uint32_t>(send)}),
            std::nullopt);
}

TEST(CompareModel, LetsOneSimulatedRankStandForOthers) {
  CompareInput input = TwoRanks();
  input.predicted = RunOfSpans({ComputeSpan({.rank = 0, .micro_batch = 0}, 0, 100)});
  input.predicted->stands_for_rank = {0, 0};
  const auto of_rank = [](int rank) { return ComputeSpan({.rank = rank}, 1000, 1120); };
  input.measured = RunOfSpans({of_rank(0), of_rank(1)});
  const CompareModel model = ModelOf(input);
  ASSERT_EQ(model.lanes.size(), 2U);
  EXPECT_EQ(model.lanes[1].rows[Index(Side::kPredicted)].at(0).tracks.at(0).size(), 1U);
  EXPECT_EQ(model.lanes[1].drift.back().drift_ns, 20);
  EXPECT_EQ(CounterpartOf(model, 1, {Side::kMeasured, 1}), (SpanRef{Side::kPredicted, 0}));
}

TEST(CompareModel, SaysWhatIsMissing) {
  CompareInput input = TwoRanks();
  EXPECT_THAT(ModelOf(input).notices, IsEmpty());
  input.predicted->program_hash = "a";
  input.measured->program_hash = "b";
  EXPECT_THAT(ModelOf(input).notices, ElementsAre(HasSubstr("different programs")));
  input.measured->program_hash.clear();
  EXPECT_THAT(ModelOf(input).notices, ElementsAre(HasSubstr("a trace without a program")));
  CompareInput alone = input;
  alone.measured.reset();
  EXPECT_THAT(ModelOf(alone).notices, ElementsAre(HasSubstr("forecast alone")));
  alone = input;
  alone.predicted.reset();
  EXPECT_THAT(ModelOf(alone).notices, ElementsAre(HasSubstr("measurement alone")));
  const CompareInput nothing;
  EXPECT_THAT(ModelOf(nothing).notices, ElementsAre("There is no run to show."));
  alone.measured->timeline = {};
  EXPECT_THAT(ModelOf(alone).notices,
              ElementsAre(HasSubstr("measurement alone"), "The measured run holds no spans."));
}

TEST(CompareModel, SaysHowManySpansAreNotDrawn) {
  CompareInput input = TwoRanks();
  for (std::size_t i = 0; i < kMaxTracks + 2; ++i) {
    input.measured->timeline.spans.push_back(SendSpan({.rank = 1, .block = 2}, 1200, 1300));
  }
  SortTimeline(input.measured->timeline);
  EXPECT_THAT(ModelOf(input).notices, ElementsAre(HasSubstr("2 spans overlap")));
}

}  // namespace
}  // namespace foretrain::ui
