#include "sim/search/advice/single_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

class SingleChanges : public testing::Test {
 protected:
  void SetUp() override {
    const auto catalogue = BuiltInCatalogue();
    ASSERT_TRUE(catalogue.has_value());
    const auto cluster = ParseCluster("1x8xa100-80gb-sxm", *catalogue);
    ASSERT_TRUE(cluster.has_value());
    cluster_ = *cluster;
    plan_.dp = 4;
    plan_.pp = 2;
    plan_.sequence = 1024;
    plan_.global_batch = 64;
    plan_.micro_batch = 2;
    plan_.precision = Precision::kBf16;
    plan_.recompute = RecomputeKind::kFull;
  }

  TriedChanges Try() {
    const auto costs = CostModel::Make(cluster_, DeriveProfile(cluster_));
    EXPECT_TRUE(costs.has_value());
    auto tried = TrySingleChanges(model_, *costs, plan_, /*threads=*/1);
    EXPECT_TRUE(tried.has_value()) << tried.error().message;
    return tried.value_or(TriedChanges{});
  }

  const ModelSpec model_ = Gpt2();
  ClusterSpec cluster_;
  Plan plan_;
};

auto WithOptions(const std::string& options) {
  return Field(&TriedChange::of, Field(&SingleChange::options, options));
}

TEST_F(SingleChanges, KeepRanksBatchAndWhatIsTrained) {
  const std::vector<SingleChange> changes = SingleChangesOf(model_, cluster_, plan_);
  ASSERT_THAT(changes, Not(IsEmpty()));
  for (const SingleChange& change : changes) {
    EXPECT_TRUE(ValidatePlan(change.plan, model_).has_value()) << change.options;
    EXPECT_EQ(change.plan.World(), 8) << change.options;
    EXPECT_EQ(change.plan.global_batch, 64) << change.options;
    EXPECT_EQ(change.plan.sequence, 1024) << change.options;
    EXPECT_FALSE(change.plan.StepsOverlap()) << change.options;
    EXPECT_EQ(change.plan.precision, Precision::kBf16) << change.options;
    EXPECT_NE(change.options, "");
  }
}

TEST_F(SingleChanges, SayWhatFollowsFromAChange) {
  plan_.schedule = ScheduleKind::kZbH1;
  const std::vector<SingleChange> changes = SingleChangesOf(model_, cluster_, plan_);
  const auto with = [](const std::string& options) {
    return Contains(Field(&SingleChange::options, options));
  };
  EXPECT_THAT(changes, with("--dp 8 --pp 1 --schedule 1f1b"));
  EXPECT_THAT(changes, with("--schedule interleaved --vpp 2"));
  EXPECT_THAT(changes, with("--micro-batch 4"));
}

TEST_F(SingleChanges, OfferShorterNumbersOnlyWhereTheDeviceIsFasterAtThem) {
  plan_.precision = Precision::kFp32;
  const auto shorter = Contains(Field(&SingleChange::other_numbers, true));
  EXPECT_THAT(SingleChangesOf(model_, cluster_, plan_), shorter);
  cluster_.device.bf16_flop_per_s = cluster_.device.fp16_flop_per_s = 0;
  EXPECT_THAT(SingleChangesOf(model_, cluster_, plan_), Not(shorter));
}

TEST_F(SingleChanges, AreForecastAsThePlanByItselfIs) {
  const TriedChanges tried = Try();
  ASSERT_THAT(tried.faster, Contains(WithOptions("--recompute none")));
  const auto costs = CostModel::Make(cluster_, DeriveProfile(cluster_));
  double before_s = 0;
  for (const TriedChange& change : tried.faster) {
    const auto forecast =
        MakeForecast(model_, change.of.plan, *costs,
                     {.ranks = RankChoice::kClasses, .simulate = {.timeline = false}});
    ASSERT_TRUE(forecast.has_value());
    EXPECT_DOUBLE_EQ(change.forecast.step_s, forecast->simulation.step_s) << change.of.options;
    EXPECT_LE(change.forecast.step_s, tried.as_is.step_s * (1 - kWorthTrying));
    EXPECT_GE(change.forecast.step_s, before_s);
    before_s = change.forecast.step_s;
  }
  EXPECT_LE(tried.simulated, tried.compared);
}

TEST_F(SingleChanges, LeaveOutWhatDoesNotFit) {
  const TriedChanges roomy = Try();
  const auto none = [](const TriedChanges& tried) {
    return std::find_if(tried.faster.begin(), tried.faster.end(), [](const TriedChange& change) {
      return change.of.options == "--recompute none";
    });
  };
  ASSERT_NE(none(roomy), roomy.faster.end());
  // A device that fits the plan as it is, but not without recomputation. The driver keeps a
  // hundredth of each device, which is less on a smaller one.
  const std::int64_t of_driver = cluster_.device.memory_bytes / 100;
  const std::int64_t bytes = none(roomy)->forecast.device_bytes - of_driver;
  ASSERT_LT(roomy.as_is.device_bytes - of_driver + bytes / 100, bytes);
  cluster_.device.memory_bytes = bytes;
  const TriedChanges tight = Try();
  EXPECT_EQ(none(tight), tight.faster.end());
}

TEST_F(SingleChanges, AreTheSameWithAnyNumberOfThreads) {
  const auto costs = CostModel::Make(cluster_, DeriveProfile(cluster_));
  const auto two = TrySingleChanges(model_, *costs, plan_, 2);
  const TriedChanges one = Try();
  ASSERT_TRUE(two.has_value());
  ASSERT_EQ(one.faster.size(), two->faster.size());
  for (std::size_t i = 0; i < one.faster.size(); ++i) {
    EXPECT_EQ(one.faster[i].of.options, two->faster[i].of.options);
    EXPECT_EQ(one.faster[i].forecast.step_s, two->faster[i].forecast.step_s);
  }
}

}  // namespace
}  // namespace foretrain
