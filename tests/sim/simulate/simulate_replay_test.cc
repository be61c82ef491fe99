// Replay of measured durations instead of modelled ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

const double kNaN = std::nan("");

// The replaced op takes its measured 4 s, whatever runs at the same time. The other op is slowed
// down while both run: it does 2/3 of its 4 s in 4 s, and the rest alone.
TEST(Simulate, ReplaysMeasuredSecondsOutsideTheContentionModel) {
  HandMade made(2);
  made.Add(0, Queue::kCompute, 9.0);
  made.Add(1, Queue::kCompute, 4.0);
  made.SetLevels({1.0, 2.0}, {1.0, 1.5});
  const Replay replay{.seconds = {{4.0}, {kNaN}}};
  SimulateOptions options = kOneStep;
  options.replay = &replay;
  const Simulation simulation = Play(made, options);
  EXPECT_THAT(StartAndEnd(simulation, 0, 0), From(0, 4));
  EXPECT_THAT(StartAndEnd(simulation, 1, 0), From(0, 4 + 4.0 / 3));
}

TEST(Simulate, ReplaysEachStepWithItsOwnValues) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 9.0);
  const Replay replay{.seconds = {{1.0, 2.0, 4.0}}};
  const Simulation simulation = Play(made, {.min_steps = 3, .max_steps = 3, .replay = &replay});
  ASSERT_EQ(simulation.timeline.steps.size(), 3U);
  EXPECT_EQ(simulation.timeline.steps[1].end_ns, 3'000'000'000);
  EXPECT_EQ(simulation.timeline.steps[2].end_ns, 7'000'000'000);
  EXPECT_FALSE(simulation.stable);
  EXPECT_DOUBLE_EQ(simulation.step_s, 3.0);  // mean of the last two periods
}

TEST(Simulate, ReplaysHostTimeBeforeEachLaunch) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 1.0);
  made.Add(0, Queue::kCompute, 1.0);
  const Replay replay{.launch_s = {{kNaN, 5.0}}};
  SimulateOptions options = kOneStep;
  options.replay = &replay;
  EXPECT_THAT(StartAndEnd(Play(made, options), 0, 1), From(5, 6));
}

}  // namespace
}  // namespace foretrain
