#include "runtime/run/learning_rate.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace foretrain {
namespace {

constexpr std::int64_t kSteps = 10;

LearningRate RateOf(LearningRateSchedule schedule) {
  LearningRate rate;
  rate.schedule = schedule;
  rate.peak = 1.0;
  rate.min = schedule == LearningRateSchedule::kConstant ? 0.0 : 0.2;
  rate.warmup = 2;
  rate.steps = kSteps;
  if (schedule == LearningRateSchedule::kWsd) rate.decay_steps = 4;
  return rate;
}

struct Schedule {
  LearningRateSchedule schedule;
  std::array<float, kSteps> rates;
};

// By hand. Linear: 0.8 falls over 8 steps, so 0.1 each. Wsd: 0.8 falls over the last 4, so 0.2
// each. Cosine: 0.6 + 0.4 cos(pi t / 8). PyTorch 2's schedulers in sequence give the same:
// `python3 tests/torch/learning_rates.py`.
TEST(LearningRate, EqualsPyTorchsSchedulers) {
  for (const Schedule& one : {
           Schedule{LearningRateSchedule::kConstant, {0.5F, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
           Schedule{LearningRateSchedule::kLinear,
                    {0.5F, 1, 1, 0.9F, 0.8F, 0.7F, 0.6F, 0.5F, 0.4F, 0.3F}},
           Schedule{LearningRateSchedule::kCosine,
                    {0.5F, 1, 1, 0.969552F, 0.882843F, 0.753073F, 0.6F, 0.446927F, 0.317157F,
                     0.230448F}},
           Schedule{LearningRateSchedule::kWsd, {0.5F, 1, 1, 1, 1, 1, 1, 0.8F, 0.6F, 0.4F}},
       }) {
    const LearningRate rate = RateOf(one.schedule);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(rate.At(step), one.rates[static_cast<std::size_t>(step)], 1e-6)
          << Describe(rate) << ", step " << step;
    }
  }
}

TEST(LearningRate, KeepsItsMinimumAfterTheFall) {
  for (const auto schedule :
       {LearningRateSchedule::kLinear, LearningRateSchedule::kCosine, LearningRateSchedule::kWsd}) {
    const LearningRate rate = RateOf(schedule);
    EXPECT_EQ(rate.At(kSteps), 0.2F);
    EXPECT_EQ(rate.At(1000 * kSteps), 0.2F);
  }
}

// A fall of given length need not end with the training.
TEST(LearningRate, FallsOverTheDecaySteps) {
  LearningRate rate = RateOf(LearningRateSchedule::kLinear);
  rate.decay_steps = 4;  // 0.2 a step, from step 2
  EXPECT_FLOAT_EQ(rate.At(3), 0.8F);
  EXPECT_FLOAT_EQ(rate.At(6), 0.2F);
  rate.decay_steps = 80;  // 0.01 a step
  EXPECT_FLOAT_EQ(rate.At(9), 0.93F);
}

TEST(LearningRate, FallsOverTheLastTenthWithWsd) {
  LearningRate rate = RateOf(LearningRateSchedule::kWsd);
  rate.decay_steps = 0;
  rate.steps = 200;
  EXPECT_EQ(rate.DecaySteps(), 20);
  EXPECT_EQ(rate.DecayStart(), 180);
  EXPECT_EQ(rate.At(180), 1.0F);
  EXPECT_FLOAT_EQ(rate.At(190), 0.6F);
  rate.steps = 3;  // a tenth is no step; the fall has one at least, and starts with the peak
  EXPECT_EQ(rate.DecaySteps(), 1);
  EXPECT_EQ(rate.At(2), 1.0F);
  EXPECT_EQ(rate.At(3), 0.2F);
}

TEST(LearningRate, RisesWithoutAFallIfTheWarmupTakesAllSteps) {
  for (const auto schedule : {LearningRateSchedule::kConstant, LearningRateSchedule::kCosine,
                              LearningRateSchedule::kWsd}) {
    LearningRate rate = RateOf(schedule);
    rate.decay_steps = 0;
    rate.warmup = 20;
    EXPECT_FLOAT_EQ(rate.At(0), 0.05F);
    EXPECT_FLOAT_EQ(rate.At(9), 0.5F);
  }
}

}  // namespace
}  // namespace foretrain
