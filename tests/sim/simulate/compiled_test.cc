// Property tests of compiled plans, with their costs and simulation.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <vector>

#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/peak_memory.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/random_plans.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

constexpr int kPlans = 24;

// Simulating one rank per class gives the times of all, to the nanosecond. Nodes have one device,
// so that groups are placed the same way for all ranks.
TEST(CompiledPlans, TakeAsLongWithOneRankAClassAsWithAll) {
  int compared = 0;
  for (std::uint64_t i = 0; i < 8 * kPlans; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(Describe(planned));
    const auto all = Compile(planned.model, planned.plan);
    const auto some = Compile(planned.model, planned.plan, {.ranks = RankChoice::kClasses});
    ASSERT_TRUE(all.has_value() && some.has_value());
    if (all->ranks.size() == some->ranks.size()) continue;
    const ClusterSpec cluster = GpuCluster(planned.plan.World(), 1);
    const Simulation whole = Play(*all, cluster, {.timeline = false});
    const Simulation part = Play(*some, cluster, {.timeline = false});
    EXPECT_GT(whole.step_s, 0.0);
    EXPECT_NEAR(part.step_s, whole.step_s, 1e-9);
    EXPECT_NEAR(part.first_step_s, whole.first_step_s, 1e-9);
    ++compared;
  }
  EXPECT_GE(compared, 2 * kPlans);
}

TEST(CompiledPlans, AreTheSameForecastOnSeveralThreads) {
  for (std::uint64_t i = 0; i < kPlans / 4; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(Describe(planned));
    const ClusterSpec cluster = GpuCluster(planned.plan.World(), 1);
    const auto costs = CostModel::Make(cluster, DeriveProfile(cluster));
    ASSERT_TRUE(costs.has_value());
    SimulateOptions options;
    const auto one = MakeForecast(planned.model, planned.plan, *costs,
                                  {.ranks = RankChoice::kAll, .simulate = options});
    options.threads = 3;
    const auto three = MakeForecast(planned.model, planned.plan, *costs,
                                    {.ranks = RankChoice::kAll, .simulate = options});
    ASSERT_EQ(one.has_value(), three.has_value());
    if (!one.has_value()) continue;
    EXPECT_EQ(one->program.hash, three->program.hash);
    EXPECT_EQ(one->simulation.step_s, three->simulation.step_s);
    const auto span = [](const Span& s) {
      return std::tuple(s.rank, s.op, s.step, s.start_ns, s.end_ns, s.ready_ns);
    };
    const auto sample = [](const MemorySample& s) {
      return std::tuple(s.rank, s.time_ns, s.bytes, s.category, s.space);
    };
    const Timeline& a = one->simulation.timeline;
    const Timeline& b = three->simulation.timeline;
    EXPECT_TRUE(std::ranges::equal(a.spans, b.spans, {}, span, span));
    EXPECT_TRUE(std::ranges::equal(a.memory, b.memory, {}, sample, sample));
  }
}

TEST(CompiledPlans, ReachAStablePeriod) {
  for (std::uint64_t i = 0; i < kPlans; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(Describe(planned));
    const auto program = Compile(planned.model, planned.plan);
    if (!program.has_value()) continue;
    EXPECT_TRUE(Play(*program, GpuCluster(planned.plan.World(), 1), {.timeline = false}).stable);
  }
}

// Ranks that share the cores of one machine take at least as long as ranks with their own cores.
TEST(CompiledPlans, AreNotFasterOnFewerCores) {
  for (std::uint64_t i = 0; i < kPlans; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(Describe(planned));
    const auto program = Compile(planned.model, planned.plan);
    if (!program.has_value()) continue;
    const int ranks = planned.plan.World();
    const double many = Play(*program, CpuCluster(ranks, 1024), {.timeline = false}).step_s;
    const double two = Play(*program, CpuCluster(ranks, 2), {.timeline = false}).step_s;
    EXPECT_GE(two, many * (1 - 1e-6));
  }
}

// Simulated timing may free a buffer later than issue order does. It still never needs more than
// the arena, which reuses a place only after the buffer there has been freed.
TEST(CompiledPlans, NeverHoldMoreThanTheArena) {
  for (std::uint64_t i = 0; i < kPlans; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(Describe(planned));
    const auto program = Compile(planned.model, planned.plan);
    if (!program.has_value()) continue;
    const Simulation simulation = Play(*program, GpuCluster(planned.plan.World(), 1));
    std::vector<std::array<std::int64_t, kCategoryCount>> live(program->ranks.size());
    std::vector<MemorySample> samples;
    for (const MemorySample& sample : simulation.timeline.memory) {
      if (sample.space == Space::kDevice) samples.push_back(sample);
    }
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const MemorySample& sample = samples[s];
      auto& rank = live[static_cast<std::size_t>(sample.rank)];
      rank[static_cast<std::size_t>(sample.category)] = sample.bytes;
      const bool more = s + 1 < samples.size() && samples[s + 1].rank == sample.rank &&
                        samples[s + 1].time_ns == sample.time_ns;
      if (more) continue;
      std::int64_t sum = 0;
      for (const std::int64_t bytes : rank) sum += bytes;
      ASSERT_LE(sum, program->ranks[static_cast<std::size_t>(sample.rank)]
                         .arena_bytes[static_cast<std::size_t>(Space::kDevice)]);
    }
  }
}

}  // namespace
}  // namespace foretrain
