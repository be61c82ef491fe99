#include "ui/view_model/planning/plan_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "tests/ui/planning_samples.h"

namespace foretrain::ui {
namespace {

class PlanSweeps : public testing::Test {
 protected:
  PlanSweep Sweep(SweptField field) {
    auto sweep = SweepOf(scenario_, field, maker_, [] { return false; });
    EXPECT_TRUE(sweep.has_value());
    return sweep.has_value() ? *std::move(sweep) : PlanSweep{};
  }
  static const SweepPoint& At(const PlanSweep& sweep, std::int64_t value) {
    const auto at = std::find_if(sweep.points.begin(), sweep.points.end(),
                                 [value](const SweepPoint& p) { return p.value == value; });
    EXPECT_NE(at, sweep.points.end()) << value;
    return *at;
  }

  SystemClock clock_;
  StepMaker maker_{clock_};
  Scenario scenario_ = SampleScenario("gpt2-124m", "1x8xh100-sxm", 4, 2, 1, 32, 256);
};

TEST_F(PlanSweeps, HoldThePlanItselfAndItsForecast) {
  const PlanSweep sweep = Sweep(SweptField::kSequence);
  const SweepPoint& own = At(sweep, 256);
  EXPECT_TRUE(own.own);
  const auto step = maker_.Make({scenario_, -1});
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(own.stats->step_s, step->stats.step_s);
  // 8 devices for as long as a billion tokens take.
  EXPECT_NEAR(own.DeviceHoursPerBillion(), 8 * 1e9 / step->stats.tokens_per_s / 3600, 1e-9);
  EXPECT_TRUE(
      std::is_sorted(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& a, const SweepPoint& b) { return a.value < b.value; }));
}

// Longer sequences need more memory for activations.
TEST_F(PlanSweeps, GrowWithTheSequence) {
  const PlanSweep sweep = Sweep(SweptField::kSequence);
  ASSERT_TRUE(At(sweep, 1024).stats.has_value()) << At(sweep, 1024).problem;
  EXPECT_GT(At(sweep, 1024).stats->device.Total(), At(sweep, 256).stats->device.Total());
}

// 32 samples on dp 4 to dp 32: the global batch stays, so that each rank has fewer.
TEST_F(PlanSweeps, TakeMoreDevicesByDataParallelism) {
  const PlanSweep sweep = Sweep(SweptField::kDevices);
  ASSERT_TRUE(At(sweep, 64).stats.has_value()) << At(sweep, 64).problem;
  EXPECT_EQ(At(sweep, 64).devices, 64);
  EXPECT_LT(At(sweep, 64).stats->step_s, At(sweep, 8).stats->step_s);
  // dp 64 has more ranks than samples.
  EXPECT_FALSE(At(sweep, 128).stats.has_value());
  EXPECT_FALSE(At(sweep, 128).problem.empty());
  EXPECT_EQ(At(sweep, 1).problem, "cp x tp x pp does not divide the devices");
}

TEST_F(PlanSweeps, EndWhenAnotherIsAskedFor) {
  const auto aborted = SweepOf(scenario_, SweptField::kMicroBatch, maker_, [] { return true; });
  ASSERT_FALSE(aborted.has_value());
  EXPECT_EQ(aborted.error().code, ErrorCode::kAborted);
}

}  // namespace
}  // namespace foretrain::ui
