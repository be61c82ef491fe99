#include "ui/view_model/panels/time_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/ui/hand_made.h"
#include "tests/ui/sample_run.h"

namespace foretrain::ui {
namespace {

std::array<std::optional<StepParts>, 2> PartsOfInput(const CompareInput& input) {
  const SidePair sides = SidesOf(input, FactsOf(input));
  return PartsOf(sides, RanksOf(sides));
}

TEST(TimeParts, SplitTheStepOfHandMadeRanks) {
  const CompareInput input = TwoRanks();
  const auto parts = PartsOfInput(input);
  ASSERT_TRUE(parts[0].has_value() && parts[1].has_value());
  // Forecast: both ranks compute 200 ns of windows of 200 ns.
  EXPECT_EQ(parts[0]->step_ns, 200);
  EXPECT_EQ(parts[0]->ranks, 2);
  EXPECT_EQ(parts[0]->Of(TimePart::kGemm), 400);
  // Measured: rank 0 computes for 240 with its send overlapped; rank 1 computes for 90 + 110 and is
  // idle for 40 until its input arrives.
  EXPECT_EQ(parts[1]->step_ns, 240);
  EXPECT_EQ(parts[1]->Of(TimePart::kGemm), 440);
  EXPECT_EQ(parts[1]->Of(TimePart::kInputWait), 40);
  EXPECT_EQ(parts[1]->Of(TimePart::kPpComm), 0);
  EXPECT_EQ(parts[1]->Of(TimePart::kUneven), 0);
  EXPECT_DOUBLE_EQ(parts[1]->Seconds(TimePart::kInputWait), 20e-9);
}

TEST(TimeParts, CountWhatTheSlowestRankTakesBeyondTheMean) {
  CompareInput input;
  input.measured = RunOfSpans({ComputeSpan({.rank = 0}, 0, 100), ComputeSpan({.rank = 1}, 0, 60)});
  const auto parts = PartsOfInput(input);
  ASSERT_TRUE(parts[1].has_value());
  EXPECT_FALSE(parts[0].has_value());
  // 2 * 100 - (100 + 60).
  EXPECT_EQ(parts[1]->Of(TimePart::kUneven), 40);
}

TEST(TimeParts, LeaveOutRanksThatOneRunDoesNotKnow) {
  CompareInput input = TwoRanks();
  input.predicted = RunOfSpans({ComputeSpan({.rank = 0}, 0, 100)});
  const auto parts = PartsOfInput(input);
  ASSERT_TRUE(parts[0].has_value() && parts[1].has_value());
  EXPECT_EQ(parts[0]->ranks, 1);
  EXPECT_EQ(parts[1]->ranks, 1);
  EXPECT_EQ(parts[1]->Of(TimePart::kGemm), 240);
}

TEST(Waterfall, LeadsFromThePredictedToTheMeasuredStep) {
  const CompareInput input = TwoRanks();
  const auto parts = PartsOfInput(input);
  const Waterfall fall = WaterfallOf(*parts[0], *parts[1]);
  ASSERT_EQ(fall.bars.size(), 2U);
  // (440 - 400) / 2 ranks and 40 / 2 ranks.
  EXPECT_EQ(fall.bars[0].name, "GEMM");
  EXPECT_DOUBLE_EQ(fall.bars[0].from_s, 200e-9);
  EXPECT_DOUBLE_EQ(fall.bars[0].to_s, 220e-9);
  EXPECT_EQ(fall.bars[1].name, "dependency wait");
  EXPECT_DOUBLE_EQ(fall.bars[1].to_s, 240e-9);
}

TEST(Waterfall, SumsExactlyToTheDifferenceOfTheSteps) {
  // Pipelines with gaps, transfers, buckets and launches, of several shapes.
  for (const int stages : {1, 2, 4}) {
    for (const int replicas : {1, 3}) {
      const CompareInput input =
          SampleInput({.stages = stages, .replicas = replicas, .layers = 4, .micro_batches = 4});
      const auto parts = PartsOfInput(input);
      ASSERT_TRUE(parts[0].has_value() && parts[1].has_value());
      for (const auto& side : parts) {
        const std::int64_t sum =
            std::accumulate(side->rank_ns.begin(), side->rank_ns.end(), std::int64_t{0});
        EXPECT_EQ(sum, side->ranks * side->step_ns);
        EXPECT_EQ(side->ranks, stages * replicas);
      }
      const Waterfall fall = WaterfallOf(*parts[0], *parts[1]);
      ASSERT_FALSE(fall.bars.empty());
      EXPECT_EQ(fall.bars.front().from_s, fall.predicted_s);
      EXPECT_EQ(fall.bars.back().to_s, fall.measured_s);
      for (std::size_t i = 1; i < fall.bars.size(); ++i) {
        EXPECT_EQ(fall.bars[i].from_s, fall.bars[i - 1].to_s);
      }
    }
  }
}

TEST(Waterfall, ShowsAnAttributionWithWhatItLeaves) {
  Attribution gap;
  gap.predicted_s = 1.0;
  gap.measured_s = 1.25;
  gap.shares = {{GapClass::kGemm, 0.25, 0.01}, {GapClass::kPipeline, -0.125, 0}};
  gap.unexplained_s = 0.125;
  const Waterfall fall = WaterfallOf(gap);
  ASSERT_EQ(fall.bars.size(), 3U);
  EXPECT_EQ(fall.bars[0].name, "GEMM");
  EXPECT_EQ(fall.bars[0].error_s, 0.01);
  EXPECT_EQ(fall.bars[1].name, "pp comm");
  EXPECT_EQ(fall.bars[1].from_s, 1.25);
  EXPECT_EQ(fall.bars[1].to_s, 1.125);
  EXPECT_EQ(fall.bars[2].name, "unexplained");
  EXPECT_EQ(fall.bars[2].DeltaS(), 0.125);
}

}  // namespace
}  // namespace foretrain::ui
