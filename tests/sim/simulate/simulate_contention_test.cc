// Ranks that share a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

TEST(Simulate, SlowsDownRanksThatShareAMachineWhileBothAreBusy) {
  HandMade made(2);
  made.Add(0, Queue::kCompute, 4.0);
  made.Add(1, Queue::kCompute, 4.0);
  made.SetLevels({1.0, 2.0}, {1.0, 1.5});
  made.costs.launch_s[1] = 1.0;
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, 0), From(0, 5.5));
  EXPECT_THAT(StartAndEnd(simulation, 1, 0), From(1, 6.5));

  SimulateOptions alone = kOneStep;
  alone.contention = false;
  EXPECT_THAT(StartAndEnd(Play(made, alone), 1, 0), From(1, 5));

  made.costs.domain = {0, 1};
  EXPECT_THAT(StartAndEnd(Play(made), 1, 0), From(1, 5));
}

// Between the levels 1 and 3 two threads cost the mean of 1 and 2: 1.5 times.
TEST(Simulate, InterpolatesBetweenMeasuredConcurrencies) {
  HandMade made(2);
  made.Add(0, Queue::kCompute, 4.0);
  made.Add(1, Queue::kCompute, 4.0);
  made.SetLevels({1.0, 3.0}, {1.0, 2.0});
  EXPECT_DOUBLE_EQ(Play(made).step_s, 6.0);
}

// Three threads on two cores have two thirds of one each: 2 s take 3 s. Costs measured with three
// threads on them have that in already.
TEST(Simulate, SharesCoresAmongMoreThreads) {
  HandMade made(3);
  for (int rank = 0; rank < 3; ++rank) made.Add(rank, Queue::kCompute, 2.0);
  made.costs.cores = 2;
  EXPECT_DOUBLE_EQ(Play(made).step_s, 3.0);
  made.costs.measured_threads.assign(3, 3.0);
  EXPECT_DOUBLE_EQ(Play(made).step_s, 2.0);
}

// One rank stands for three of its machine: its op runs as three.
TEST(Simulate, CountsTheRanksThatARankStandsFor) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 2.0);
  made.costs.cores = 2;
  made.costs.weight = {3.0};
  EXPECT_DOUBLE_EQ(Play(made).step_s, 3.0);
}

// A second op of the same rank, on another queue, is a busy thread too; a waiting one is not.
TEST(Simulate, CountsThreadsNotRanks) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 2.0);
  const int copy = made.Add(0, Queue::kH2d, 2.0);
  made.SetLevels({1.0, 2.0}, {1.0, 1.5});
  EXPECT_DOUBLE_EQ(Play(made).step_s, 3.0);
  made.costs.load[static_cast<std::size_t>(made.Row(0, copy))] = 0.0;
  EXPECT_DOUBLE_EQ(Play(made).step_s, 2.0);
}

// The replaced op takes its measured 4 s with a neighbour beside it; the neighbour, not replaced,
// is slowed down while both run: 2/3 of its 4 s in 4 s, the rest alone.

}  // namespace
}  // namespace foretrain
