#include "sim/learn/forecast_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

std::size_t Number(std::string_view name) {
  std::size_t c = 0;
  while (LearnedConstants()[c].name != name) ++c;
  return c;
}

// A covariance of independent constants with this variance.
std::vector<double> Independent(double variance) {
  std::vector<double> out(kLearnedConstants * kLearnedConstants, 0.0);
  for (std::size_t c = 0; c < kLearnedConstants; ++c) out[c * kLearnedConstants + c] = variance;
  return out;
}

UncertainStep StepOf(double step_s, double product = 0) {
  UncertainStep out;
  out.step_s = step_s;
  out.plan_error = 0.1;
  out.derivatives[Number("product_rate")] = product;
  return out;
}

// Only the plans' own errors count: 2 * 0.1^2 = 0.02, and ln(second / first) = 0.2 is 1.41421
// standard deviations. Phi(1.41421) = 0.92135; 0.02 + 0.96 * 0.92135 = 0.90450.
TEST(FirstIsFaster, IsTheNormalShareAboveEqualTimes) {
  EXPECT_NEAR(FirstIsFaster(StepOf(1), StepOf(std::exp(0.2)), Independent(0.04)), 0.90450, 1e-5);
  EXPECT_NEAR(FirstIsFaster(StepOf(1), StepOf(std::exp(-0.2)), Independent(0.04)), 1 - 0.90450,
              1e-5);
  EXPECT_DOUBLE_EQ(FirstIsFaster(StepOf(1), StepOf(1), Independent(0.04)), 0.5);
}

// An error that both share cancels. One that they share by halves adds 0.5^2 * 0.04 = 0.01:
// 0.2 / sqrt(0.03) = 1.15470, Phi = 0.87590; 0.02 + 0.96 * 0.87590 = 0.86086.
TEST(FirstIsFaster, CountsOnlyTheErrorsThatDiffer) {
  const double both = FirstIsFaster(StepOf(1, -1), StepOf(std::exp(0.2), -1), Independent(0.04));
  EXPECT_NEAR(both, 0.90450, 1e-5);
  const double half = FirstIsFaster(StepOf(1, -1), StepOf(std::exp(0.2), -0.5), Independent(0.04));
  EXPECT_NEAR(half, 0.86086, 1e-5);
}

// Far apart, the pair is still ordered otherwise in 2 of 100 cases: 0.02 + 0.96.
TEST(FirstIsFaster, LeavesRoomForWhatNoForecastKnows) {
  EXPECT_NEAR(FirstIsFaster(StepOf(1), StepOf(100), Independent(0)), 0.98, 1e-12);
}

// Only products take time, so the step is proportional to the time of everything and inversely to
// the rate of products. The difference quotient of e^x over 0.003 and 0.004 errs by half of that.
TEST(DerivativesOf, AreTheSharesOfAStep) {
  DeviceProfile profile = IdealProfile();
  profile.rates.gemm_flop_per_s = {1e9, Provenance::kDefault};
  const auto costs = CostModel::Make(GpuCluster(1, 1), profile);
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  const auto derivatives = DerivativesOf(SmallGpt(), *costs, std::vector{plan, plan});
  ASSERT_EQ(derivatives.size(), 2U);
  EXPECT_EQ(derivatives[0], derivatives[1]);
  EXPECT_NEAR(derivatives[0][Number("all_times")], 1, 3e-3);
  EXPECT_NEAR(derivatives[0][Number("product_rate")], -1, 3e-3);
  EXPECT_NEAR(derivatives[0][Number("network_bytes_per_s")], 0, 1e-6);
}

TEST(CheckLearned, RefusesConstantsOfAnotherVersion) {
  DeviceProfile profile;
  EXPECT_TRUE(CheckLearned(profile).has_value());
  profile.learned = LearnedState{1, "", {"product_rate"}, {0.1}, {0.01}, 0.1};
  const auto checked = CheckLearned(profile);
  ASSERT_FALSE(checked.has_value());
  EXPECT_THAT(checked.error().message, testing::HasSubstr("learn again"));
}

// A covariance of zeros belongs to no distribution.
TEST(CheckLearned, RefusesACovarianceThatIsNone) {
  DeviceProfile profile;
  LearnedState& state = profile.learned.emplace();
  for (const LearnedConstant& constant : LearnedConstants()) {
    state.constants.emplace_back(constant.name);
  }
  state.moves.assign(kLearnedConstants, 0);
  state.covariance = Independent(0.01);
  EXPECT_TRUE(CheckLearned(profile).has_value());
  state.covariance = Independent(0);
  EXPECT_FALSE(CheckLearned(profile).has_value());
}

}  // namespace
}  // namespace foretrain
