#include "ui/view_model/panels/wait_rows.h"

#include <gtest/gtest.h>

#include "tests/ui/sample_run.h"
#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {
namespace {

TEST(BubbleRows, SumToTheBubbleOfBothRuns) {
  const CompareInput input = SampleInput({.stages = 4, .layers = 4, .micro_batches = 4});
  const CompareFacts facts = FactsOf(input);
  const CompareModel model = BuildCompareModel(input, facts, {});
  const std::vector<WaitRow> rows = BubbleRows(model.bubble_causes);
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_TRUE(rows.back().total);
  for (const Side side : kSides) {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < rows.size(); ++i) sum += *rows[i].seconds[Index(side)];
    EXPECT_NEAR(sum, *rows.back().seconds[Index(side)], 1e-12);
    // bubble = mean over stages of their idle time, divided by the period
    for (const PipelineBubble& bubble : model.Of(side).metrics->bubbles) {
      if (bubble.step != model.Of(side).step) continue;
      const double period_s = static_cast<double>(bubble.end_ns - bubble.start_ns) * 1e-9;
      EXPECT_NEAR(sum, bubble.bubble * period_s, 1e-9);
    }
  }
  // The stages of the forecast differ only at the ends; the measured run has a slow last stage.
  EXPECT_GT(*rows[3].seconds[1], *rows[3].seconds[0]);
}

TEST(BubbleRows, AreNoneWithoutAPipeline) {
  EXPECT_TRUE(BubbleRows({}).empty());
  const CompareInput input = SampleInput({.stages = 1, .layers = 2, .micro_batches = 2});
  const CompareFacts facts = FactsOf(input);
  EXPECT_FALSE(BuildCompareModel(input, facts, {}).bubble_causes[0].has_value());
}

TEST(ExposedRows, SumToTheExposedCommunication) {
  CompareInput input = SampleInput({.stages = 2, .replicas = 2, .layers = 4, .micro_batches = 4});
  const CompareFacts facts = FactsOf(input);
  const SidePair sides = SidesOf(input, facts);
  const std::vector<WaitRow> rows = ExposedRows(sides);
  ASSERT_EQ(rows.size(), 4U);  // groups of the measured run are unknown
  EXPECT_EQ(rows[2].name, "not split");
  for (const Side side : kSides) {
    double exposed_s = 0;
    int ranks = 0;
    for (const RankStep& rank : sides.Of(side).metrics->rank_steps) {
      if (rank.step != sides.Of(side).step) continue;
      exposed_s += static_cast<double>(rank.classes.exposed_communication_ns) * 1e-9;
      ++ranks;
    }
    EXPECT_NEAR(*rows.back().seconds[Index(side)], exposed_s / ranks, 1e-12);
  }
}

TEST(DescribeBubble, NamesTheLargestFirstAndLeavesOutWhatIsNone) {
  BubbleCauses causes;
  causes.warm_up_s = 1;
  causes.steady_s = 1;
  causes.imbalance_s = 5;
  causes.transfers_s = 0.01;
  causes.rest_s = 2.99;
  EXPECT_EQ(DescribeBubble(causes), "imbalance 50 %, rest 30 %, schedule 20 %");
  EXPECT_EQ(DescribeBubble({}), "");
}

}  // namespace
}  // namespace foretrain::ui
