// Compiled plans, costed and simulated: what must hold for every one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "sim/cost/cost_model.h"
#include "sim/cost/derive_profile.h"
#include "sim/memory/linked_peak.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/random_plans.h"

namespace foretrain {
namespace {

constexpr int kPlans = 24;

Simulation Play(const Program& program, const ClusterSpec& cluster,
                const SimulateOptions& options = {}) {
  const auto model = CostModel::Make(cluster, DeriveProfile(cluster));
  EXPECT_TRUE(model.has_value()) << model.error().message;
  const auto costs = model->CostsOf(program);
  EXPECT_TRUE(costs.has_value()) << costs.error().message;
  auto simulation = Simulate(program, *costs, options);
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? *std::move(simulation) : Simulation{};
}

std::vector<OpShape> ShapesOf(const Program& program, const RankProgram& rank) {
  std::vector<OpShape> shapes;
  for (const OpRef ref : OpRefs(program, rank)) shapes.push_back(OpAt(program, rank, ref).shape);
  return shapes;
}

std::vector<OpKind> KindsOf(const Program& program, const RankProgram& rank) {
  std::vector<OpKind> kinds;
  for (const OpRef ref : OpRefs(program, rank)) kinds.push_back(OpAt(program, rank, ref).kind);
  return kinds;
}

// Whether all ranks of a stage have the same in `of`, which is given a program and a rank.
template <typename Of>
bool StagesHaveEqual(const Program& program, Of of) {
  return std::all_of(program.ranks.begin(), program.ranks.end(), [&](const RankProgram& rank) {
    const int first = rank.rank - rank.rank % (program.plan.World() / program.plan.pp);
    return of(program, rank) == of(program, program.ranks[static_cast<std::size_t>(first)]);
  });
}

// Whether all ranks of a stage have the same kinds of ops. Tensor-parallel ranks that do not count
// replicated parameters into the norm may have more ranges to sum, and the last shard of a bucket
// may be padding alone, which nobody updates.
bool StagesAreAlike(const Program& program) { return StagesHaveEqual(program, KindsOf); }

// One rank of each stage says what all take where they are alike: to the nanosecond where their ops
// have equal sizes too, which the padding of a last shard may undo. Nodes have one device, so that
// groups lie the same way for all ranks.
TEST(CompiledPlans, TakeAsLongWithOneRankAStageAsWithAll) {
  int compared = 0, exact = 0;
  for (std::uint64_t i = 0; i < 8 * kPlans; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    SCOPED_TRACE(Describe(planned));
    const auto all = Compile(planned.model, planned.plan);
    const auto some = Compile(planned.model, planned.plan, {.representatives = true});
    if (!all.has_value() || !some.has_value()) continue;
    if (planned.plan.World() == planned.plan.pp || !StagesAreAlike(*all)) continue;
    // Of adapters most of what is summed over tp may lie in one rank's shard.
    const bool equal = StagesHaveEqual(*all, ShapesOf);
    if (planned.plan.method == TrainingMethod::kLora && !equal) continue;
    const ClusterSpec cluster = GpuCluster(planned.plan.World(), 1);
    const Simulation whole = Play(*all, cluster, {.timeline = false});
    const Simulation part = Play(*some, cluster, {.timeline = false});
    EXPECT_GT(whole.step_s, 0.0);
    EXPECT_NEAR(part.step_s / whole.step_s, 1.0, 1e-6);
    EXPECT_NEAR(part.first_step_s / whole.first_step_s, 1.0, 1e-6);
    ++compared;
    if (!equal) continue;
    EXPECT_NEAR(part.step_s, whole.step_s, 1e-9);
    EXPECT_NEAR(part.first_step_s, whole.first_step_s, 1e-9);
    ++exact;
  }
  EXPECT_GE(compared, 2 * kPlans);
  EXPECT_GE(exact, kPlans);
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

// Ranks that share the cores of one machine take at least as long as ranks with cores of their own.
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

// Timing may end a buffer's life later than issue order does, and never holds more than the arena,
// whose places are reused only behind an end.
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
