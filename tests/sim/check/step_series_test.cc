#include "sim/check/step_series.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace foretrain {
namespace {

// Steps of one second with one percent of noise, after a slow first one.
std::vector<double> Steady(int count) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.01);
  std::vector<double> seconds{5};
  for (int i = 1; i < count; ++i) seconds.push_back(1 + noise(random));
  return seconds;
}

TEST(StepSeries, LeavesOutWarmUpAndFindsNothingInASteadyRun) {
  const StepSeries series = SplitSteps(Steady(200));
  EXPECT_EQ(series.warm_up, 1);
  EXPECT_NEAR(series.mean_s, 1, 0.005);
  EXPECT_NEAR(series.median_s, 1, 0.005);
  EXPECT_EQ(series.spikes, 0);
  EXPECT_EQ(series.drift_s, 0);
  EXPECT_DOUBLE_EQ(series.base_s, series.mean_s);
}

// Every 50th step takes 3 s longer: 0.06 s a step.
TEST(StepSeries, FindsThePeriodOfSlowSteps) {
  std::vector<double> seconds = Steady(400);
  for (std::size_t i = 50; i < seconds.size(); i += 50) seconds[i] += 3;
  const StepSeries series = SplitSteps(seconds);
  EXPECT_EQ(series.spikes, 7);
  EXPECT_EQ(series.spike_every, 50);
  EXPECT_NEAR(series.spikes_s, 7 * 3.0 / 399, 0.003);
  EXPECT_NEAR(series.base_s, 1, 0.01);
}

// Half of the steps wait, at random: the level is that of the others.
TEST(StepSeries, FindsStallsOfHalfOfTheSteps) {
  std::vector<double> seconds = Steady(400);
  std::mt19937 random(3);
  double waited_s = 0;
  for (std::size_t i = 1; i < seconds.size(); ++i) {
    if (random() % 2 != 0) continue;
    seconds[i] += 0.6;
    waited_s += 0.6;
  }
  const StepSeries series = SplitSteps(seconds);
  EXPECT_EQ(series.spike_every, 0);
  EXPECT_NEAR(series.spikes_s, waited_s / 399, 0.02);
  EXPECT_NEAR(series.base_s, 1, 0.03);
}

// The level rises to 1.4 in the first half and stays: 0.3 more on average.
TEST(StepSeries, FindsALevelThatRises) {
  std::vector<double> seconds = Steady(400);
  for (std::size_t i = 1; i < seconds.size(); ++i) {
    seconds[i] *= 1 + 0.4 * std::min(1.0, static_cast<double>(i) / 200);
  }
  const StepSeries series = SplitSteps(seconds);
  EXPECT_EQ(series.spikes, 0);
  EXPECT_NEAR(series.drift_s, 0.3, 0.04);
  EXPECT_NEAR(series.base_s + series.drift_s + series.spikes_s, series.mean_s, 1e-9);
}

TEST(StepSeries, OfFewStepsHasAMeanAlone) {
  const std::vector<double> two{2, 4};
  const StepSeries series = SplitSteps(two);
  EXPECT_EQ(series.warm_up, 0);
  EXPECT_DOUBLE_EQ(series.mean_s, 3);
  EXPECT_DOUBLE_EQ(series.base_s, 3);
}

}  // namespace
}  // namespace foretrain
