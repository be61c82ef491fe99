// Queues, edges, partners and periods; refusals; memory samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const double kNaN = std::nan("");

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

TEST(Simulate, EndsWhenItIsCancelled) {
  HandMade made(1);
  made.Add(0, Queue::kCompute, 2.0);
  SimulateOptions options = kOneStep;
  options.cancelled = [] { return true; };
  const auto simulation = Simulate(made.program, made.costs, options);
  ASSERT_FALSE(simulation.has_value());
  EXPECT_EQ(simulation.error().code, ErrorCode::kAborted);
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

// Update u of 3 s and compute c of 1 s. If independent, the slower queue sets the period, 3. If c
// waits for the update of the previous step, each step takes both, 4.
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

// Rank 1 is not simulated: its class arrives together with rank 0.
TEST(Simulate, TakesAbsentMembersToArriveWithTheirClass) {
  HandMade made(1);
  made.AddCollective(0, Queue::kReduce, 2.0, {0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(Play(made).step_s, 2.0);
}

// Both ranks receive before they send. Sends and receives have separate queues, so neither blocks
// the other.
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

TEST(Simulate, RefusesADeadlockAndNamesTheBlockedOps) {
  HandMade made(3);
  made.AddCollective(0, Queue::kReduce, 1.0, {0, 1}, "pair");
  made.AddCollective(0, Queue::kReduce, 1.0, {0, 1, 2}, "all");
  made.AddCollective(2, Queue::kReduce, 1.0, {0, 1, 2}, "all");
  // Rank 1 issues them in the opposite order.
  made.AddCollective(1, Queue::kReduce, 1.0, {0, 1, 2}, "all");
  made.AddCollective(1, Queue::kReduce, 1.0, {0, 1}, "pair");
  // Both groups are created as kDp; the wider one becomes kWorld.
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
  EXPECT_EQ(std::bit_cast<std::uint64_t>(a.step_s), std::bit_cast<std::uint64_t>(b.step_s));
}

}  // namespace
}  // namespace foretrain
