#include "sim/validate/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

using testing::ElementsAre;

struct Rows {
  std::vector<PublishedRun> runs;
  std::vector<RunPrediction> predictions;

  // Adds a row of a sweep of plans; 0 seconds: not measured.
  void Add(const std::string& family, double measured_s, double forecast_s, int tp = 1) {
    PublishedRun run;
    run.family = family;
    run.id = family + "-" + std::to_string(runs.size());
    run.layers = run.hidden = run.heads = 8;
    run.sequence = 1024;
    run.global_batch = 16;
    run.tp = tp;
    run.step_s = measured_s;
    runs.push_back(run);
    predictions.emplace_back();
    predictions.back().step_s = forecast_s;
    predictions.back().fits = true;
  }
};

// Ratios 1.1, 0.8, 1: the mean of 0.1, 0.2, 0 is 0.1. The median of |ln| 0.0953, 0.2231, 0 is
// 0.0953. The mean of ln is (0.0953 - 0.2231) / 3 = -0.0426.
TEST(Score, TakesErrorsOfTime) {
  Rows rows;
  rows.Add("a", 1, 1.1);
  rows.Add("a", 2, 1.6);
  rows.Add("a", 3, 3);
  const FamilyScore score = ScoreFamilies(rows.runs, rows.predictions).front();
  EXPECT_NEAR(score.time_mape.value, 0.1, 1e-12);
  EXPECT_NEAR(score.time_max.value, 0.2, 1e-12);
  EXPECT_NEAR(score.time_median_abs_log.value, std::log(1.1), 1e-12);
  EXPECT_NEAR(score.time_bias.value, (std::log(1.1) + std::log(0.8)) / 3, 1e-12);
  EXPECT_EQ(score.time_mape.count, 3);
}

// Measured 1 < 2 < 3, forecast 1.1 < 3 > 1.6: pairs (1,2) and (1,3) agree, (2,3) does not.
TEST(Score, CountsPairsOfASweepThatAgree) {
  Rows rows;
  rows.Add("a", 1, 1.1);
  rows.Add("a", 2, 3);
  rows.Add("a", 3, 1.6);
  const FamilyScore score = ScoreFamilies(rows.runs, rows.predictions).front();
  EXPECT_EQ(score.kendall_tau.count, 3);
  EXPECT_NEAR(score.kendall_tau.value, (2.0 - 1.0) / 3, 1e-12);
}

// Two of three runs that ran are forecast to fit; one of two that failed is forecast not to: (2/3 +
// 1/2) / 2.
TEST(Score, BalancesRunsThatFitAgainstThoseThatDoNot) {
  Rows rows;
  for (int i = 0; i < 5; ++i) rows.Add("a", i < 3 ? 1 : 0, 1);
  rows.runs[3].out_of_memory = rows.runs[4].out_of_memory = true;
  rows.predictions[0].fits = false;
  rows.predictions[4].fits = false;
  const FamilyScore score = ScoreFamilies(rows.runs, rows.predictions).front();
  EXPECT_NEAR(score.fits_balanced_accuracy.value, (2.0 / 3 + 1.0 / 2) / 2, 1e-12);
}

// 4 plans of a sweep of 5 are forecast to fit. The fastest three are rows 1, 2 and 4; row 2 ran out
// of memory. The other sweep has no such row.
TEST(Score, TakesTheFastestThreeThatAreSaidToFit) {
  Rows rows;
  for (const double forecast_s : {1.0, 2.0, 3.0, 9.0, 4.0}) rows.Add("a", 5, forecast_s);
  rows.predictions[0].fits = false;
  rows.runs[0].out_of_memory = rows.runs[2].out_of_memory = true;
  rows.runs[0].step_s = rows.runs[2].step_s = 0;
  for (int i = 0; i < 3; ++i) rows.Add("b", 1, 1);
  const std::vector<FittingChoice> choices = ScoreFittingChoice(rows.runs, rows.predictions);
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_THAT(choices[0].chosen, ElementsAre(1, 2, 4));
  EXPECT_EQ(choices[0].plans, 5);
  EXPECT_EQ(choices[0].out_of_memory, 2);
  EXPECT_EQ(choices[0].chosen_out_of_memory, 1);
}

TEST(Score, LeavesRefusedRowsAndRowsWithoutAFigureOut) {
  Rows rows;
  rows.Add("a", 1, 2);
  rows.Add("a", 1, 100);
  rows.predictions[1].refused = "a reason";
  rows.runs[0].peak_gib = 40;
  rows.predictions[0].peak_gib = 44;
  const FamilyScore score = ScoreFamilies(rows.runs, rows.predictions).front();
  EXPECT_EQ(score.refused, 1);
  EXPECT_EQ(score.time_mape.count, 1);
  EXPECT_NEAR(score.memory_mape.value, 0.1, 1e-12);
  EXPECT_EQ(score.kendall_tau.count, 0);
}

// In the first group, the plan with the fastest forecast takes 1.1 s; the fastest takes 1.0 s.
TEST(Score, MeasuresTheRegretOfAChosenPlan) {
  Rows rows;
  rows.Add("a", 1.0, 1.3, 1);
  rows.Add("a", 1.1, 1.2, 2);
  rows.Add("a", 2.0, 2.0, 4);
  for (int i = 0; i < 3; ++i) {
    rows.Add("a", 1.0 + i, 5.0 + i, 1 << i);
    rows.runs.back().global_batch = 32;
  }
  const std::vector<PlanChoice> choices = ScorePlanChoice(rows.runs, rows.predictions);
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].groups, 2);
  EXPECT_EQ(choices[0].hits, 1);
  EXPECT_NEAR(choices[0].mean_regret, 0.05, 1e-12);
  EXPECT_NEAR(choices[0].worst_regret, 0.1, 1e-12);
}

TEST(Score, ShowsHowFarASourceIsFromItself) {
  Rows rows;
  rows.Add("a", 2.0, 2.0);
  rows.Add("a", 2.5, 2.0);
  rows.Add("a", 9.0, 9.0, 2);
  const std::vector<Repeats> repeats = FindRepeats(rows.runs, rows.predictions);
  ASSERT_EQ(repeats.size(), 1U);
  EXPECT_THAT(repeats[0].rows, ElementsAre(0, 1));
  EXPECT_NEAR(repeats[0].spread, 0.25, 1e-12);
  EXPECT_NEAR(repeats[0].error, 0.1, 1e-12);  // 0 and 0.2
}

// Family c is searched in both rows, so only a and b count: (ln 1.1 + ln 1.2) / 2.
TEST(Score, CountsEachBarredFamilyOnce) {
  Rows rows;
  rows.Add("a", 1, 1.1);
  rows.Add("b", 1, 1.2);
  rows.Add("c", 1, 9);
  rows.Add("c", 1, 9);
  rows.predictions[2].open = rows.predictions[3].open = {"micro_batch"};
  const std::vector<FamilyScore> families = ScoreFamilies(rows.runs, rows.predictions);
  EXPECT_FALSE(families[2].barred);
  EXPECT_NEAR(ScoreAll(families).time_median_abs_log.value, (std::log(1.1) + std::log(1.2)) / 2,
              1e-12);
  EXPECT_THAT(WorstRows(rows.runs, rows.predictions, 2), ElementsAre(2, 3));
}

}  // namespace
}  // namespace foretrain
