// The host that issues ops: its launches, its window, and its waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

// Five launches of 5 s before ops of 1 s: the device waits for the host. 5 * 5 + 1.
TEST(Simulate, IsBoundByTheHostWhereLaunchesCostMoreThanOps) {
  HandMade made(1);
  for (int i = 0; i < 5; ++i) made.Add(0, Queue::kCompute, 1.0);
  made.costs.launch_s.assign(5, 5.0);
  const Simulation simulation = Play(made);
  EXPECT_DOUBLE_EQ(simulation.step_s, 26.0);
  EXPECT_DOUBLE_EQ(simulation.ranks[0].host_s, 25.0);
}

TEST(Simulate, ShowsLaunchesOnTheHostQueueWhenAsked) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 1.0);
  made.costs.launch_s.assign(1, 5.0);
  SimulateOptions options = kOneStep;
  options.launches = true;
  const Simulation simulation = Play(made, options);
  ASSERT_EQ(simulation.timeline.spans.size(), 2U);
  EXPECT_EQ(simulation.timeline.spans[0].queue, Queue::kHost);
  EXPECT_EQ(simulation.timeline.spans[0].end_ns, 5'000'000'000);
  EXPECT_EQ(simulation.timeline.spans[0].op, simulation.timeline.spans[1].op);
}

// Issued at 5, although its input was ready at 2. The idle time before it is the host's.
TEST(Simulate, CallsAnOpReadyWhenItsInputsAreThereWhateverTheHostDoes) {
  HandMade made(1);
  const int load = made.Add(0, Queue::kH2d, 2.0);
  const int use = made.Add(0, Queue::kCompute, 1.0);
  made.Edge(0, load, use);
  made.costs.launch_s[1] = 5.0;
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, use), From(5, 6));
  EXPECT_EQ(SpanOf(simulation, 0, use).ready_ns, 2'000'000'000);
}

// Launches of 1 s, ops of 10 s, window 2. Op 0 runs 1-11, op 1 11-21. Op 2 is issued at 12, after
// op 0 has ended. Op 3 has a queue of its own and is issued after op 1 has ended: 21 + 1.
TEST(Simulate, RunsTheHostAheadByTheWindowAtMost) {
  HandMade made(1);
  for (int i = 0; i < 3; ++i) made.Add(0, Queue::kCompute, 10.0);
  const int copy = made.Add(0, Queue::kH2d, 1.0);
  made.costs.launch_s.assign(4, 1.0);
  EXPECT_THAT(StartAndEnd(Play(made), 0, copy), From(4, 5));
  SimulateOptions options = kOneStep;
  options.run_ahead = 2;
  EXPECT_THAT(StartAndEnd(Play(made, options), 0, copy), From(22, 23));
}

// Launches of 1 s, ops of 2 s, window 2. Both ranks launch a send in 0-1, which is not counted, and
// two ops in 1-3, which run 2-4 and 4-6. When the first ends, the third is launched, 4-5. When the
// second ends, the receive is launched, 6-7; the other rank's send waits for it.
TEST(Simulate, LeavesTransfersOutOfTheWindow) {
  HandMade made(2);
  int sends[2], receives[2];
  for (int rank = 0; rank < 2; ++rank) {
    sends[rank] = made.AddSend(rank, rank == 0, 2.0);
    for (int i = 0; i < 3; ++i) made.Add(rank, Queue::kCompute, 2.0);
    receives[rank] = made.AddRecv(rank, rank == 1, 2.0);
  }
  made.costs.launch_s.assign(10, 1.0);
  SimulateOptions options = kOneStep;
  options.run_ahead = 2;
  const Simulation simulation = Play(made, options);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(SpanOf(simulation, rank, sends[rank]).ready_ns, 1'000'000'000);
    EXPECT_THAT(StartAndEnd(simulation, rank, sends[rank]), From(7, 9));
    EXPECT_THAT(StartAndEnd(simulation, rank, receives[rank]), From(7, 9));
  }
}

// The op runs 1-11. The host reads 11-11.5 and launches the next op 11.5-12.5.
TEST(Simulate, BlocksTheHostInAHostReadUntilItsInputsAreThere) {
  HandMade made(1);
  const int work = made.Add(0, Queue::kCompute, 10.0);
  const int read = made.Add(0, Queue::kHost, 0.5, "read");
  const int next = made.Add(0, Queue::kCompute, 1.0);
  made.Edge(0, work, read);
  made.costs.launch_s.assign(3, 1.0);
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, read), From(11, 11.5));
  EXPECT_THAT(StartAndEnd(simulation, 0, next), From(12.5, 13.5));
}

// The queue is idle from 1 to 3 and wakes at 3.25. Right after an op, only the gap counts.
TEST(Simulate, WakesAnIdleQueueAndLeavesAGapBetweenOps) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 1.0);
  const int load = made.Add(0, Queue::kH2d, 3.0);
  const int late = made.Add(0, Queue::kCompute, 1.0);
  const int behind = made.Add(0, Queue::kCompute, 1.0);
  made.Edge(0, load, late);
  made.costs.wake_s = 0.25;
  made.costs.gap_s = 0.125;
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, late), From(3.25, 4.25));
  EXPECT_THAT(StartAndEnd(simulation, 0, behind), From(4.375, 5.375));
  EXPECT_EQ(SpanOf(simulation, 0, late).ready_ns, 3'000'000'000);
}

}  // namespace
}  // namespace foretrain
