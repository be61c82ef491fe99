#include "sim/validate/score_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace foretrain {
namespace {

PublishedRun RunOf(const std::string& family, double step_s) {
  PublishedRun run;
  run.family = family;
  run.layers = 12;
  run.hidden = 768;
  run.gpus = 8;
  run.global_batch = 64;
  run.sequence = 1024;
  run.step_s = step_s;
  return run;
}

// Steps of 1, e^0.2 and e^0.4 s, each known to 0.1: neighbours are ordered as forecast with 0.9045
// (tests/sim/learn/forecast_error_test.cc), the ends with 0.02 + 0.96 Phi(2.82843) = 0.97775.
// Measured, the last two are the other way round.
TEST(ScorePairs, CountsPairsByTheirProbability) {
  const std::vector<PublishedRun> runs = {RunOf("a", 1), RunOf("a", 3), RunOf("a", 2)};
  std::vector<std::optional<UncertainStep>> steps;
  for (const double ln : {0.0, 0.2, 0.4}) steps.push_back(UncertainStep{std::exp(ln), {}, 0.1});
  const std::vector<double> covariance(kLearnedConstants * kLearnedConstants, 0.0);
  const auto scores = ScorePairs(runs, steps, covariance);
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0].family, "a");
  EXPECT_EQ(scores[1].family, "");
  EXPECT_EQ(scores[0].pairs, 3);
  const PairBin& near = scores[0].bins[4];  // 0.85 to 0.95
  EXPECT_EQ(near.pairs, 2);
  EXPECT_NEAR(near.forecast, 0.90450, 1e-5);
  EXPECT_DOUBLE_EQ(near.ordered, 0.5);
  const PairBin& far = scores[0].bins[5];
  EXPECT_EQ(far.pairs, 1);
  EXPECT_NEAR(far.forecast, 0.97775, 1e-5);
  EXPECT_DOUBLE_EQ(far.ordered, 1);
}

// Another batch, and a row without a forecast, leave fewer than three comparable rows.
TEST(ScorePairs, ComparesPlansOfOneJobAlone) {
  std::vector<PublishedRun> runs = {RunOf("a", 1), RunOf("a", 3), RunOf("a", 2), RunOf("a", 4)};
  runs[1].global_batch = 32;
  std::vector<std::optional<UncertainStep>> steps(4, UncertainStep{1, {}, 0.1});
  steps[2].reset();
  const std::vector<double> covariance(kLearnedConstants * kLearnedConstants, 0.0);
  const auto scores = ScorePairs(runs, steps, covariance);
  ASSERT_EQ(scores.size(), 1U);
  EXPECT_EQ(scores[0].pairs, 0);
}

}  // namespace
}  // namespace foretrain
