#include "ui/view_model/planning/plan_controls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/ui/planning_samples.h"
#include "ui/view_model/planning/hardware.h"

namespace foretrain::ui {
namespace {

TEST(PlanControls, HaveEveryFieldOfThePlanOnce) {
  std::multiset<const PlanField*> shown;
  for (const ControlGroup& group : ControlGroups()) {
    shown.insert(group.fields.begin(), group.fields.end());
    EXPECT_NE(group.name, "other") << group.fields.front()->name << " has no group";
  }
  EXPECT_EQ(shown.size(), PlanFields().size());
  for (const PlanField& field : PlanFields()) EXPECT_EQ(shown.count(&field), 1U) << field.name;
}

TEST(PlanControls, StepThroughAscendingValuesInRangeWithThePlansOwn) {
  const Scenario s = SampleScenario("llama3-8b", "1x8xh100-80gb-sxm", 2, 2, 2, 48, 4096);
  for (const PlanField& field : PlanFields()) {
    const auto steps = StepsOf(field, s.model, s.plan, 8);
    if (field.get == nullptr) {
      EXPECT_TRUE(steps.empty());
      continue;
    }
    ASSERT_FALSE(steps.empty()) << field.name;
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end())) << field.name;
    EXPECT_GE(steps.front(), field.low) << field.name;
    EXPECT_LE(steps.back(), field.high) << field.name;
    EXPECT_TRUE(std::binary_search(steps.begin(), steps.end(), field.get(s.plan))) << field.name;
  }
}

TEST(PlanControls, KeepTheRanksWhereDataParallelismCanTakeUpTheChange) {
  const Scenario s = SampleScenario("llama3-8b", "1x8xh100-80gb-sxm", 2, 2, 2, 48, 4096);
  const Plan wider = WithField(PlanFieldOf("tp"), 4, s.plan, 8);
  EXPECT_EQ(wider.tp, 4);
  EXPECT_EQ(wider.dp, 1);
  EXPECT_EQ(wider.World(), 8);
  const Plan odd = WithField(PlanFieldOf("tp"), 3, s.plan, 8);  // 3 x 2 does not divide 8
  EXPECT_EQ(odd.tp, 3);
  EXPECT_EQ(odd.dp, 2);
}

TEST(HardwareFieldsTest, ReadBackWhatWasSet) {
  ClusterSpec cluster = SampleScenario("gpt2-124m", "2x8xh100-80gb-sxm", 16, 1, 1, 16, 256).cluster;
  for (const HardwareField& field : HardwareFields()) {
    field.Set(cluster, 123.0);
    EXPECT_NEAR(field.In(cluster), 123.0, 1e-6) << field.name;
  }
}

// A machine with twice the arithmetic, memory rate or links is not slower, and it is faster for the
// one that is the bottleneck.
TEST(HardwareFieldsTest, MakeStepsShorterWhereTheyBoundThem) {
  const Scenario s = SampleScenario("llama3-8b", "1x8xh100-80gb-sxm", 1, 8, 1, 8, 4096);
  const auto step_s = [&](const ClusterSpec& cluster) {
    const auto costs = CostsOfTurned(s.machine, cluster);
    EXPECT_TRUE(costs.has_value());
    return PassForecaster(s.model, *costs).Forecast(s.plan)->step_s;
  };
  const double before = step_s(s.cluster);
  for (const HardwareField& field : HardwareFields()) {
    if (field.In(s.cluster) <= 0) continue;
    ClusterSpec turned = s.cluster;
    field.Set(turned, 2 * field.In(s.cluster));
    const double after = step_s(turned);
    EXPECT_LE(after, before * 1.0001) << field.name;
    if (field.name == "arithmetic" || field.name == "links") {
      EXPECT_LT(after, 0.98 * before) << field.name;
    }
  }
}

}  // namespace
}  // namespace foretrain::ui
