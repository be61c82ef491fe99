#include "sim/forecast/forecast.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/cost/profile/derive_profile.h"
#include "sim/memory/device_use.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// A search shows these results, `predict` those of the whole program.
TEST(ForecastOutline, IsTheForecastOfTheWholeProgram) {
  std::set<ScheduleKind> schedules;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    RealisticPlan drawn = RealisticPlanOf(seed);
    drawn.model.layers = 8;
    if (!ValidatePlan(drawn.plan, drawn.model)) continue;
    schedules.insert(drawn.plan.schedule);
    const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
    ASSERT_TRUE(costs.has_value());
    const auto whole = MakeForecast(drawn.model, drawn.plan, *costs,
                                    {.ranks = RankChoice::kFirst, .simulate = {.timeline = false}});
    const auto outline = MakeForecast(
        drawn.model, drawn.plan, *costs,
        {.ranks = RankChoice::kFirst, .simulate = {.timeline = false}, .outline = true});
    ASSERT_TRUE(whole.has_value() && outline.has_value()) << Describe(drawn.plan);
    EXPECT_EQ(outline->simulation.step_s, whole->simulation.step_s) << Describe(drawn.plan);
    EXPECT_EQ(outline->simulation.first_step_s, whole->simulation.first_step_s);
    EXPECT_EQ(outline->relative_error, whole->relative_error);
    ASSERT_EQ(outline->memory.size(), whole->memory.size());
    const SystemOptions& system = costs->profile().system;
    const FullestDevice a =
        FullestDeviceOf(drawn.model, whole->program, whole->memory, drawn.cluster, system);
    const FullestDevice b =
        FullestDeviceOf(drawn.model, outline->program, outline->memory, drawn.cluster, system);
    EXPECT_EQ(b.index, a.index);
    EXPECT_EQ(b.memory.tensors, a.memory.tensors);
    EXPECT_EQ(b.memory.held, a.memory.held);
    for (const RankProgram& rank : outline->program.ranks) EXPECT_TRUE(rank.bindings.empty());
  }
  EXPECT_GE(schedules.size(), 5U);
}

// Ranks after the first that does not fit are not compiled.
TEST(ForecastOutline, EndsAtTheFirstRankThatDoesNotFit) {
  RealisticPlan drawn = RealisticPlanOf(0);
  drawn.model.layers = 8;
  drawn.plan = {};
  drawn.plan.pp = 4;
  drawn.plan.dp = drawn.cluster.Devices() / 4;
  drawn.plan.micro_batch = 1;
  drawn.plan.sequence = 128;
  drawn.plan.global_batch = std::int64_t{8} * drawn.plan.dp;
  const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
  ASSERT_TRUE(costs.has_value());
  int asked = 0;
  ForecastOptions options{.ranks = RankChoice::kFirst, .outline = true};
  options.simulate.timeline = false;
  options.fits = [&asked](const RankProgram& rank, const PeakMemory& peak) {
    EXPECT_EQ(rank.pp, asked);
    EXPECT_GT(peak.total, 0);
    return ++asked < 2;
  };
  const auto forecast = MakeForecast(drawn.model, drawn.plan, *costs, options);
  ASSERT_TRUE(forecast.has_value()) << forecast.error().message;
  EXPECT_FALSE(forecast->fits);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace foretrain
