#include "sim/learn/learn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/cost/profile/derive_profile.h"
#include "sim/search/evaluate/evaluator.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

std::size_t Number(std::string_view name) {
  std::size_t c = 0;
  while (LearnedConstants()[c].name != name) ++c;
  return c;
}

double Forecast(const MeasuredStep& step, const DeviceProfile& profile) {
  const auto costs = CostModel::Make(step.cluster, profile);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  return Evaluator(step.model, *costs, AllPlanFields()).Evaluate(step.plan).step_s;
}

// A step in which only products take time; measured `ratio` times as long as forecast.
MeasuredStep StepOf(double ratio) {
  MeasuredStep step{SmallGpt(), GpuCluster(1, 1), IdealProfile(), {}, 0};
  step.profile.rates.gemm_flop_per_s = {1e9, Provenance::kDefault};
  step.plan.sequence = 8;
  step.plan.micro_batch = 1;
  step.plan.global_batch = 2;
  step.step_s = ratio * Forecast(step, step.profile);
  return step;
}

// Two constants act: the time of everything (prior 0.2, derivative 1) and the rate of products
// (0.15, -1). With ln 1.2 = 0.1823 and a noise of 0.1 the posterior of a linear model is
//   moves   0.2^2 / (0.2^2 + 0.15^2 + 0.1^2) * 0.1823 = 0.1006, -0.15^2 / 0.0725 * 0.1823 = -0.0566
//   left    0.1823 * 0.01 / 0.0725 = 0.0251
//   variance of the time of everything   0.04 - 0.04^2 / 0.0725 = 0.0179
// The noise is 0.0991 after the step: (4 * 0.01 + 0.0251^2) / (4 + 1 - 0.862) = 0.0098. So the
// error is sqrt(0.0098 + 0.0625 * 0.0098 / 0.0723) = 0.135.
TEST(LearnFrom, OneStepSharesItsErrorAmongThePriors) {
  const MeasuredStep step = StepOf(1.2);
  const auto learned = LearnFrom(std::vector{step}, 1);
  ASSERT_TRUE(learned.has_value()) << learned.error().message;
  EXPECT_EQ(learned->runs, 1);
  EXPECT_NEAR(learned->error_before, std::log(1.2), 1e-9);
  EXPECT_NEAR(learned->error_after, 0.0251, 1e-3);
  const std::size_t all = Number("all_times"), product = Number("product_rate");
  EXPECT_NEAR(learned->by[all], 0.1006, 1e-3);
  EXPECT_NEAR(learned->by[product], -0.0566, 1e-3);
  EXPECT_NEAR(learned->covariance[all * kLearnedConstants + all], 0.0179, 2e-4);
  EXPECT_NEAR(learned->plan_error, 0.0991, 5e-4);
  EXPECT_NEAR(learned->error, 0.135, 2e-3);
}

// Constants on which the step does not depend keep their priors.
TEST(LearnFrom, LeavesAloneWhatAStepDoesNotShow) {
  const auto learned = LearnFrom(std::vector{StepOf(1.2)}, 1);
  ASSERT_TRUE(learned.has_value()) << learned.error().message;
  const std::size_t network = Number("network_bytes_per_s");
  EXPECT_NEAR(learned->by[network], 0, 1e-6);
  EXPECT_NEAR(learned->covariance[network * kLearnedConstants + network], 0.3 * 0.3, 1e-9);
}

TEST(LearnFrom, ErrsLessWithEachStep) {
  double error = kUnfittedError;
  for (const std::size_t count : {1U, 2U, 4U, 8U}) {
    const auto learned = LearnFrom(std::vector(count, StepOf(1.2)), 1);
    ASSERT_TRUE(learned.has_value()) << learned.error().message;
    EXPECT_LT(learned->error, error) << count;
    EXPECT_GE(learned->error, learned->plan_error);
    error = learned->error;
  }
}

// The posterior of one run is the prior of the next: two steps learned in turn are known as
// well as both at once, and the moves add up to the same.
TEST(LearnFrom, GoesOnFromALearnedProfile) {
  const MeasuredStep step = StepOf(1.2);
  const auto first = LearnFrom(std::vector{step}, 1);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  MeasuredStep again = step;
  ApplyLearned(*first, "megatron", again.profile);
  const auto second = LearnFrom(std::vector{again}, 1);
  ASSERT_TRUE(second.has_value()) << second.error().message;
  EXPECT_EQ(second->runs, 2);
  const auto both = LearnFrom(std::vector{step, step}, 1);
  ASSERT_TRUE(both.has_value()) << both.error().message;
  ApplyLearned(*second, "megatron", again.profile);
  EXPECT_EQ(again.profile.learned->runs, 2);
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    EXPECT_NEAR(again.profile.learned->moves[c], both->by[c], 3e-3) << LearnedConstants()[c].name;
  }
}

// The constants of a profile for another cluster move alike, and it takes over how well they are
// known.
TEST(TakeLearned, MovesTheProfileOfAnotherCluster) {
  MeasuredStep step = StepOf(1.2);
  step.profile.rates.network_bytes_per_s.value = 1e10;
  const auto learned = LearnFrom(std::vector{step}, 1);
  ASSERT_TRUE(learned.has_value()) << learned.error().message;
  DeviceProfile from = step.profile;
  ApplyLearned(*learned, "", from);
  DeviceProfile to = step.profile;
  to.rates.network_bytes_per_s.value *= 2;
  TakeLearned(from, to);
  EXPECT_EQ(to.learned, from.learned);
  EXPECT_DOUBLE_EQ(to.error, from.error);
  EXPECT_DOUBLE_EQ(to.rates.gemm_flop_per_s.value, from.rates.gemm_flop_per_s.value);
  EXPECT_DOUBLE_EQ(to.rates.network_bytes_per_s.value, 2 * from.rates.network_bytes_per_s.value);
}

// Points were measured, and a run shows that they are off all the same.
TEST(MoveConstants, MovesMeasuredPointsWithTheirRate) {
  DeviceProfile profile = DeriveProfile(CpuCluster(2, 2));
  AddPoint(profile, Timed(PointOf(GemmOp(64, 64, 64)), 1e-3));
  AddPoint(profile, Timed(PointOf(SquaredNormOp(1000)), 1e-4));
  ConstantMoves by{};
  by[Number("product_rate")] = std::log(2.0);
  MoveConstants(by, profile);
  EXPECT_NEAR(profile.points[0].seconds, 0.5e-3, 1e-12);
  EXPECT_NEAR(profile.points[1].seconds, 1e-4, 1e-12);
}

TEST(LearnFrom, RefusesNothing) {
  const auto learned = LearnFrom({}, 1);
  ASSERT_FALSE(learned.has_value());
  EXPECT_THAT(learned.error().message, testing::HasSubstr("at least one"));
}

}  // namespace
}  // namespace foretrain
