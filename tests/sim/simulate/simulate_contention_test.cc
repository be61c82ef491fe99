// Ranks that share a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "sim/simulate/contention.h"
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

WireDemand Of(SharedWire wire, double share) {
  WireDemand demand{};
  demand[static_cast<std::size_t>(wire)] = share;
  return demand;
}

// Two collectives of 2 s and 4 s that want all of the network: each runs at half its speed for 4 s,
// in which the first ends; the other has 2 s left.
TEST(Simulate, SharesAConnectionAmongCollectives) {
  HandMade made(1);
  const int shorter = made.AddCollective(0, Queue::kReduce, 2.0, {0});
  const int longer = made.AddCollective(0, Queue::kTp, 4.0, {0});
  made.costs.demand.assign(2, Of(SharedWire::kNetworkOut, 1.0));
  EXPECT_THAT(StartAndEnd(Play(made), 0, shorter), From(0, 4));
  EXPECT_THAT(StartAndEnd(Play(made), 0, longer), From(0, 6));
  // On another connection neither waits.
  made.costs.demand[1] = Of(SharedWire::kNetworkIn, 1.0);
  EXPECT_DOUBLE_EQ(Play(made).step_s, 4.0);
  // Half of each is no more than there is.
  made.costs.demand.assign(2, Of(SharedWire::kNetworkOut, 0.5));
  EXPECT_DOUBLE_EQ(Play(made).step_s, 4.0);
}

// Demands of 1 and 0.5 are 1.5 of the wire: the first takes 1.5 times as long while both run, the
// second 1 + 0.5 * 0.5 times.
TEST(Crowding, SlowsAnOpByThePartOfItThatIsOnTheWire) {
  WireDemand total = Of(SharedWire::kLinkOut, 1.5);
  EXPECT_DOUBLE_EQ(Crowding(Of(SharedWire::kLinkOut, 1.0), total), 1.5);
  EXPECT_DOUBLE_EQ(Crowding(Of(SharedWire::kLinkOut, 0.5), total), 1.25);
  EXPECT_DOUBLE_EQ(Crowding(Of(SharedWire::kPcieIn, 1.0), total), 1.0);
}

// The replaced op takes its measured 4 s with a neighbour beside it; the neighbour, not replaced,
// is slowed down while both run: 2/3 of its 4 s in 4 s, the rest alone.

}  // namespace
}  // namespace foretrain
