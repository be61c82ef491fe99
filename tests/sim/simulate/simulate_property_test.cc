#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/numeric/random.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/simulate/hand_made.h"

namespace foretrain {
namespace {

constexpr int kRanks = 3;
constexpr int kRounds = 40;

// In [0, 1).
double Uniform(const CounterRandom& random, std::uint64_t index) {
  return static_cast<double>(random.Bits(index) >> 11) * 0x1p-53;
}

// Ranks that compute, copy, sum over all ranks and send to the next one, with edges from random
// earlier ops.
HandMade RandomProgram(std::uint64_t seed) {
  const CounterRandom random(seed, "programs");
  std::uint64_t at = 0;
  HandMade made(kRanks);
  std::vector<std::vector<int>> ops(kRanks);
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t kind = random.Below(at++, 4);
    for (int rank = 0; rank < kRanks; ++rank) {
      const double seconds = Uniform(random, at++);
      int op = -1;
      if (kind == 0) {
        op = made.AddCollective(rank, Queue::kReduce, seconds, {0, 1, 2});
      } else if (kind == 1) {
        // Rank 0 sends to rank 1, rank 2 copies.
        if (rank == 0) op = made.AddSend(0, /*up=*/true, seconds);
        if (rank == 1) op = made.AddRecv(1, /*up=*/true, seconds);
        if (rank == 2) op = made.Add(2, Queue::kD2h, seconds, "copy", OpClass::kCopy);
      } else {
        op = made.Add(rank, Queue::kCompute, seconds);
      }
      const auto number = static_cast<std::size_t>(rank);
      made.costs.launch_s.back() = 0.1 * Uniform(random, at++);
      if (!ops[number].empty()) {
        const std::uint64_t from = random.Below(at++, ops[number].size());
        made.Edge(rank, ops[number][from], op);
        if (random.Below(at++, 3) == 0) made.Edge(rank, op, op / 2, /*distance=*/1);
      }
      ops[number].push_back(op);
    }
  }
  return made;
}

Simulation Play(const HandMade& made, const SimulateOptions& options) {
  auto simulation = Simulate(made.program, made.costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

TEST(SimulateProperty, LongerOpNeverShortensAProgramWithoutContention) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    HandMade made = RandomProgram(seed);
    const SimulateOptions options{.min_steps = 3, .max_steps = 3, .run_ahead = 16};
    const Simulation before = Play(made, options);
    const std::size_t row = seed % made.costs.seconds.size();
    made.costs.seconds[row] += 0.5;
    const Simulation after = Play(made, options);
    ASSERT_EQ(before.timeline.steps.size(), after.timeline.steps.size());
    for (std::size_t i = 0; i < before.timeline.steps.size(); ++i) {
      EXPECT_LE(before.timeline.steps[i].end_ns, after.timeline.steps[i].end_ns) << seed;
    }
  }
}

TEST(SimulateProperty, QueuesNeverOverlapThemselvesAndEveryOpRunsOnceAStep) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    HandMade made = RandomProgram(seed);
    made.SetLevels({1.0, 2.0, 3.0}, {1.0, 1.2, 1.7});
    const Simulation simulation = Play(made, {});
    const std::vector<Span>& spans = simulation.timeline.spans;
    ASSERT_EQ(spans.size(),
              made.costs.launch_s.size() * static_cast<std::size_t>(simulation.steps));
    for (std::size_t i = 0; i < spans.size(); ++i) {
      EXPECT_LE(spans[i].ready_ns, spans[i].start_ns);
      EXPECT_LE(spans[i].start_ns, spans[i].end_ns);
      if (i > 0 && spans[i].rank == spans[i - 1].rank && spans[i].queue == spans[i - 1].queue) {
        EXPECT_GE(spans[i].start_ns, spans[i - 1].end_ns);
      }
    }
    for (const RankSummary& rank : simulation.ranks) {
      EXPECT_LE(rank.compute_s, rank.end_s - rank.start_s + 1e-9);
      EXPECT_GE(rank.idle_s, -1e-9);
    }
  }
}

// c threads on three cores do c / s(c) of work per second: 1, 1.6 and 2 for one, two and three.
// More threads share the cores and do 2. Something always runs or is being launched, at a rate of
// at least 1, so the work bounds the makespan from both sides.
TEST(SimulateProperty, SharedMachineDoesTheWorkAtTheRatesOfItsThreads) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    HandMade made = RandomProgram(seed);
    double work = 0.0;
    for (double seconds : made.costs.seconds) work += seconds;
    double launches = 0.0;
    for (double seconds : made.costs.launch_s) launches += seconds;
    made.SetLevels({1.0, 3.0}, {1.0, 1.5});
    made.costs.cores = 3;
    const Simulation simulation = Play(made, {.min_steps = 1, .max_steps = 1});
    EXPECT_GE(simulation.first_step_s, work / 2.0);
    EXPECT_LE(simulation.first_step_s, work + launches);
  }
}

TEST(SimulateProperty, ContentionNeverSpeedsUpASingleOp) {
  for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
    HandMade made = RandomProgram(seed);
    const Simulation alone = Play(made, {.min_steps = 1, .max_steps = 1});
    made.SetLevels({1.0, 3.0}, {1.0, 1.5});
    const Simulation shared = Play(made, {.min_steps = 1, .max_steps = 1});
    const auto duration = [](const Span& span) { return span.end_ns - span.start_ns; };
    ASSERT_EQ(alone.timeline.spans.size(), shared.timeline.spans.size());
    for (std::size_t i = 0; i < alone.timeline.spans.size(); ++i) {
      EXPECT_GE(duration(shared.timeline.spans[i]), duration(alone.timeline.spans[i]) - 1);
    }
  }
}

}  // namespace
}  // namespace foretrain
