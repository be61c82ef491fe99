#include "sim/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "tests/sim/simulate/hand_made.h"

namespace foretrain {
namespace {

constexpr SimulateOptions kOneStep{.min_steps = 1, .max_steps = 1};
const double kNaN = std::nan("");

Simulation Play(const HandMade& made, const SimulateOptions& options = kOneStep) {
  auto simulation = Simulate(made.program, made.costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

Error Refused(const HandMade& made, const SimulateOptions& options = kOneStep) {
  auto simulation = Simulate(made.program, made.costs, options);
  EXPECT_FALSE(simulation.has_value());
  return simulation.has_value() ? Error{} : simulation.error();
}

// The span of an op in the first step.
Span SpanOf(const Simulation& simulation, int rank, int op) {
  for (const Span& span : simulation.timeline.spans) {
    if (span.rank == rank && span.step == 0 && UnpackId(span.op).micro_batch == op &&
        (span.queue != Queue::kHost || span.op_class != OpClass::kHost)) {
      return span;
    }
  }
  ADD_FAILURE() << "no span of op " << op << " on rank " << rank;
  return {};
}

std::vector<double> StartAndEnd(const Simulation& simulation, int rank, int op) {
  const Span span = SpanOf(simulation, rank, op);
  return {static_cast<double>(span.start_ns) * 1e-9, static_cast<double>(span.end_ns) * 1e-9};
}

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

auto From(double start, double end) {
  return ElementsAre(DoubleNear(start, 1e-9), DoubleNear(end, 1e-9));
}

TEST(Simulate, RunsAQueueInOrderAndQueuesBesideOneAnother) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 2.0);
  made.Add(0, Queue::kH2d, 5.0);
  made.Add(0, Queue::kCompute, 1.0);
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, 0), From(0, 2));
  EXPECT_THAT(StartAndEnd(simulation, 0, 1), From(0, 5));
  EXPECT_THAT(StartAndEnd(simulation, 0, 2), From(2, 3));
  EXPECT_DOUBLE_EQ(simulation.step_s, 5.0);
  EXPECT_DOUBLE_EQ(simulation.ranks[0].compute_s, 3.0);
  EXPECT_DOUBLE_EQ(simulation.ranks[0].idle_s, 2.0);
}

TEST(Simulate, StartsAnOpWhenItsEdgesAreMet) {
  HandMade made(1);
  const int load = made.Add(0, Queue::kH2d, 3.0);
  const int use = made.Add(0, Queue::kCompute, 1.0);
  made.Edge(0, load, use);
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, use), From(3, 4));
  EXPECT_EQ(SpanOf(simulation, 0, use).ready_ns, 3'000'000'000);
}

// Update u of 3 s beside compute c of 1 s. Free of one another the slower queue sets the period, 3;
// with c waiting for the update of the step before, each step takes both, 4.
TEST(Simulate, RepeatsTheStepUntilItsPeriodIsStable) {
  HandMade made(1);
  const int c = made.Add(0, Queue::kCompute, 1.0);
  const int u = made.Add(0, Queue::kReduce, 3.0);
  made.Edge(0, c, u);
  const Simulation overlapped = Play(made, {});
  EXPECT_TRUE(overlapped.stable);
  EXPECT_DOUBLE_EQ(overlapped.first_step_s, 4.0);
  EXPECT_DOUBLE_EQ(overlapped.step_s, 3.0);
  EXPECT_EQ(overlapped.steps, 3);
  EXPECT_EQ(overlapped.timeline.spans.size(), 6U);

  made.Edge(0, u, c, /*distance=*/1);
  const Simulation chained = Play(made, {});
  EXPECT_TRUE(chained.stable);
  EXPECT_DOUBLE_EQ(chained.step_s, 4.0);
}

TEST(Simulate, TilesTheStepWindowsOfARank) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 1.5);
  const Simulation simulation = Play(made, {});
  ASSERT_EQ(simulation.timeline.steps.size(), 3U);
  EXPECT_EQ(simulation.timeline.steps[1].start_ns, 1'500'000'000);
  EXPECT_EQ(simulation.timeline.steps[1].end_ns, 3'000'000'000);
  EXPECT_EQ(simulation.timeline.steps[2].start_ns, 3'000'000'000);
}

TEST(Simulate, StartsACollectiveWhenItsLastMemberArrives) {
  HandMade made(2);
  for (const int rank : {0, 1}) {
    const int work = made.Add(rank, Queue::kCompute, rank == 0 ? 1.0 : 5.0);
    const int sum = made.AddCollective(rank, Queue::kReduce, 2.0, {0, 1});
    made.Edge(rank, work, sum);
  }
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 0, 1), From(5, 7));
  EXPECT_THAT(StartAndEnd(simulation, 1, 1), From(5, 7));
  EXPECT_EQ(SpanOf(simulation, 0, 1).ready_ns, 1'000'000'000);
  EXPECT_EQ(SpanOf(simulation, 1, 1).ready_ns, 5'000'000'000);
}

TEST(Simulate, MatchesTheKthOpOfEachMemberOnAQueue) {
  HandMade made(2);
  for (const int rank : {0, 1}) {
    made.AddCollective(rank, Queue::kReduce, 1.0, {0, 1}, "a");
    made.AddCollective(rank, Queue::kGather, 4.0, {0, 1}, "b");
    made.AddCollective(rank, Queue::kReduce, 1.0, {0, 1}, "c");
  }
  const Simulation simulation = Play(made);
  EXPECT_THAT(StartAndEnd(simulation, 1, 1), From(0, 4));
  EXPECT_THAT(StartAndEnd(simulation, 1, 2), From(1, 2));
}

// Rank 1 is not simulated: its class arrives with rank 0.
TEST(Simulate, TakesAbsentMembersToArriveWithTheirClass) {
  HandMade made(1);
  made.AddCollective(0, Queue::kReduce, 2.0, {0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(Play(made).step_s, 2.0);
}

// Both ranks receive before they send; on queues of their own neither waits for the other's order.
TEST(Simulate, LetsNeighboursExchangeInAnyOrder) {
  HandMade made(2);
  made.AddRecv(0, /*up=*/false, 1.0);
  made.AddSend(0, /*up=*/true, 1.0);
  made.AddRecv(1, /*up=*/true, 1.0);
  made.AddSend(1, /*up=*/false, 1.0);
  EXPECT_DOUBLE_EQ(Play(made).step_s, 1.0);
}

TEST(Simulate, LetsATransferWaitForTheReceiver) {
  HandMade made(2);
  made.AddSend(0, /*up=*/true, 1.0);
  const int busy = made.Add(1, Queue::kCompute, 3.0);
  const int recv = made.AddRecv(1, /*up=*/true, 1.0);
  made.Edge(1, busy, recv);
  EXPECT_THAT(StartAndEnd(Play(made), 0, 0), From(3, 4));
}

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

// Issued at 5 although its input was there at 2: idle time before it is the host's.
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

// Launches of 1 s, ops of 10 s, window 2. Op 0 runs 1-11, op 1 11-21. Op 2 is issued when op 0 has
// ended, at 12; op 3, alone on its queue, when op 1 has ended: 21 + 1.
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

// The op runs 1-11; the host reads 11-11.5 and launches the next op 11.5-12.5.
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

// The queue is idle from 1 to 3: it wakes at 3.25. Behind a running op the gap alone counts.
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

TEST(Simulate, RefusesADeadlockAndNamesTheBlockedOps) {
  HandMade made(3);
  made.AddCollective(0, Queue::kReduce, 1.0, {0, 1}, "pair");
  made.AddCollective(0, Queue::kReduce, 1.0, {0, 1, 2}, "all");
  made.AddCollective(2, Queue::kReduce, 1.0, {0, 1, 2}, "all");
  // Rank 1 issues them the other way round.
  made.AddCollective(1, Queue::kReduce, 1.0, {0, 1, 2}, "all");
  made.AddCollective(1, Queue::kReduce, 1.0, {0, 1}, "pair");
  // Both groups are made as kDp; the wider one is told apart as kWorld.
  for (RankProgram& rank : made.program.ranks) {
    rank.groups[static_cast<std::size_t>(GroupKind::kDp)] = 0;
    rank.groups[static_cast<std::size_t>(GroupKind::kWorld)] = 1;
  }
  for (Block& block : made.program.blocks) {
    if (block.name == "all") block.ops[0].group = GroupKind::kWorld;
  }
  const Error error = Refused(made);
  EXPECT_EQ(error.code, ErrorCode::kInfeasible);
  EXPECT_THAT(error.message, HasSubstr("rank 0, step 0: pair of"));
  EXPECT_THAT(error.message, HasSubstr("rank 1, step 0: all of"));
  EXPECT_THAT(error.message, HasSubstr("waits for its peers"));
}

TEST(Simulate, RefusesAHostThatFillsItsWindowBehindABlockedOp) {
  HandMade made(1);
  const int first = made.Add(0, Queue::kCompute, 1.0, "first");
  const int last = made.Add(0, Queue::kH2d, 1.0, "last");
  made.Edge(0, last, first);
  SimulateOptions options = kOneStep;
  options.run_ahead = 1;
  const Error error = Refused(made, options);
  EXPECT_EQ(error.code, ErrorCode::kInfeasible);
  EXPECT_THAT(error.message, HasSubstr("first of"));
  EXPECT_THAT(error.message, HasSubstr("waits for last of"));
  EXPECT_THAT(error.message, HasSubstr("the host, full of unfinished ops, waits for first of"));
}

TEST(Simulate, RefusesMembersThatIssueDifferentNumbersOfOps) {
  HandMade made(2);
  made.AddCollective(0, Queue::kReduce, 1.0, {0, 1});
  made.AddCollective(0, Queue::kReduce, 1.0, {0, 1});
  made.AddCollective(1, Queue::kReduce, 1.0, {0, 1});
  const Error error = Refused(made);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("ranks 0 and 1 share a group: the first issues 2 ops"));
}

TEST(Simulate, RefusesCostsOfAnotherProgramAndOptionsOutOfRange) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 1.0);
  made.costs.row_of[0].push_back(0);
  EXPECT_THAT(Refused(made).message, HasSubstr("rank 0: 2 ops have costs, the step has 1"));
  made.costs.row_of[0].pop_back();
  EXPECT_THAT(Refused(made, {.min_steps = 0}).message, HasSubstr("steps 0 to 8"));
  EXPECT_THAT(Refused(made, {.run_ahead = 0}).message, HasSubstr("run_ahead 0"));
  made.costs.seconds[0] = kNaN;
  EXPECT_THAT(Refused(made).message, HasSubstr("negative or not finite"));
  made.costs.seconds[0] = 1.0;
  made.program.ranks[0].rank = 40'000;
  EXPECT_THAT(Refused(made).message, HasSubstr("simulate without one"));
  made.program.ranks[0].rank = 0;
  Replay replay{.seconds = {{1.0, 2.0, -1.0}}};
  EXPECT_THAT(Refused(made, {.replay = &replay}).message, HasSubstr("-1 s"));
  replay.seconds = {{1.0}, {1.0}};
  EXPECT_THAT(Refused(made, {.replay = &replay}).message, HasSubstr("2 ranks"));
}

TEST(Simulate, OfAnEmptyProgramIsZero) {
  const HandMade made(2);
  EXPECT_DOUBLE_EQ(Play(made, {}).step_s, 0.0);
}

// Two ops of 4 s on one machine, 1.5 times slower together; B is launched at 1.
// A: a quarter alone in 1 s, the rest at 6 s a whole in 4.5 s: ends at 5.5. B has done 4.5 / 6 by
// then and does the last quarter alone in 1 s: ends at 6.5.
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

TEST(Simulate, SamplesLiveBytesAtSimulatedTimes) {
  HandMade made(1);
  const int a = made.Add(0, Queue::kCompute, 1.0);
  const int b = made.Add(0, Queue::kReduce, 2.0);
  const int c = made.Add(0, Queue::kCompute, 1.0);
  made.Edge(0, a, b);
  made.AddBuffer(0, 100, Category::kParameters, {a}, /*persistent=*/true);
  made.AddBuffer(0, 10, Category::kActivations, {a, b});  // 0 to 3: b ends after c
  made.AddBuffer(0, 7, Category::kActivations, {c});      // 1 to 2
  const Simulation simulation = Play(made);
  std::vector<std::pair<std::int64_t, std::int64_t>> activations;
  for (const MemorySample& sample : simulation.timeline.memory) {
    if (sample.category == Category::kParameters) {
      EXPECT_EQ(sample.time_ns, 0);
      EXPECT_EQ(sample.bytes, 100);
    } else {
      activations.emplace_back(sample.time_ns / 1'000'000'000, sample.bytes);
    }
  }
  using Sample = std::pair<std::int64_t, std::int64_t>;
  EXPECT_THAT(activations, ElementsAre(Sample(0, 10), Sample(1, 17), Sample(2, 10), Sample(3, 0)));
}

TEST(Simulate, GivesTheSameBytesForTheSameInput) {
  HandMade made(2);
  for (int i = 0; i < 20; ++i) {
    for (const int rank : {0, 1}) {
      made.Add(rank, Queue::kCompute, 0.1 + 0.01 * i);
      made.AddCollective(rank, Queue::kReduce, 0.05, {0, 1});
    }
  }
  made.SetLevels({1.0, 2.0}, {1.0, 1.3});
  const Simulation a = Play(made, {});
  const Simulation b = Play(made, {});
  ASSERT_EQ(a.timeline.spans.size(), b.timeline.spans.size());
  for (std::size_t i = 0; i < a.timeline.spans.size(); ++i) {
    EXPECT_EQ(a.timeline.spans[i].start_ns, b.timeline.spans[i].start_ns);
    EXPECT_EQ(a.timeline.spans[i].end_ns, b.timeline.spans[i].end_ns);
    EXPECT_EQ(a.timeline.spans[i].op, b.timeline.spans[i].op);
  }
  EXPECT_EQ(std::memcmp(&a.step_s, &b.step_s, sizeof a.step_s), 0);
}

}  // namespace
}  // namespace foretrain
