// Contention of ranks that share a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "sim/simulate/contention.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

// Two ops of 4 s on one machine, 1.5 times slower together. B is launched at 1. A does a quarter
// alone in 1 s, and the rest at 6 s per whole in 4.5 s: it ends at 5.5. By then B has done 4.5 / 6,
// and does the last quarter alone in 1 s: it ends at 6.5.
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

// Halfway between levels 1 and 3, two threads cost the mean of factors 1 and 2: 1.5.
TEST(Simulate, InterpolatesBetweenMeasuredConcurrencies) {
  HandMade made(2);
  made.Add(0, Queue::kCompute, 4.0);
  made.Add(1, Queue::kCompute, 4.0);
  made.SetLevels({1.0, 3.0}, {1.0, 2.0});
  EXPECT_DOUBLE_EQ(Play(made).step_s, 6.0);
}

// Three threads on two cores get two thirds of a core each: 2 s take 3 s. Costs measured with three
// threads already contain that.
TEST(Simulate, SharesCoresAmongMoreThreads) {
  HandMade made(3);
  for (int rank = 0; rank < 3; ++rank) made.Add(rank, Queue::kCompute, 2.0);
  made.costs.cores = 2;
  EXPECT_DOUBLE_EQ(Play(made).step_s, 3.0);
  made.costs.measured_threads.assign(3, 3.0);
  EXPECT_DOUBLE_EQ(Play(made).step_s, 2.0);
}

// One rank represents three of its machine, so its op counts as three.
TEST(Simulate, CountsTheRanksThatARankStandsFor) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 2.0);
  made.costs.cores = 2;
  made.costs.weight = {3.0};
  EXPECT_DOUBLE_EQ(Play(made).step_s, 3.0);
}

// A second op of the same rank on another queue is also a busy thread. A waiting op is not.
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

// Two collectives of 2 s and 4 s that each fill the network. Each runs at half speed for 4 s; then
// the first ends, and the other has 2 s left.
TEST(Simulate, SharesAConnectionAmongCollectives) {
  HandMade made(1);
  const int shorter = made.AddCollective(0, Queue::kReduce, 2.0, {0});
  const int longer = made.AddCollective(0, Queue::kTp, 4.0, {0});
  made.costs.demand.assign(2, Of(SharedWire::kNetworkOut, 1.0));
  EXPECT_THAT(StartAndEnd(Play(made), 0, shorter), From(0, 4));
  EXPECT_THAT(StartAndEnd(Play(made), 0, longer), From(0, 6));
  // On different connections, neither waits.
  made.costs.demand[1] = Of(SharedWire::kNetworkIn, 1.0);
  EXPECT_DOUBLE_EQ(Play(made).step_s, 4.0);
  // Half of a connection each does not overload it.
  made.costs.demand.assign(2, Of(SharedWire::kNetworkOut, 0.5));
  EXPECT_DOUBLE_EQ(Play(made).step_s, 4.0);
}

// Demands of 1 and 0.5 add up to 1.5 of the connection. While both run, the first takes 1.5 times
// as long, the second 1 + 0.5 * 0.5 times.
TEST(Crowding, SlowsAnOpByThePartOfItThatIsOnTheWire) {
  WireDemand total = Of(SharedWire::kLinkOut, 1.5);
  EXPECT_DOUBLE_EQ(Crowding(Of(SharedWire::kLinkOut, 1.0), total), 1.5);
  EXPECT_DOUBLE_EQ(Crowding(Of(SharedWire::kLinkOut, 0.5), total), 1.25);
  EXPECT_DOUBLE_EQ(Crowding(Of(SharedWire::kPcieIn, 1.0), total), 1.0);
}

}  // namespace
}  // namespace foretrain
