// The three best plans of a search fit their devices when they are compiled. Slow: it compiles
// hundreds of programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"
#include "sim/search/space/enumerate.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

constexpr std::size_t kTop = 3;

struct Case {
  RealisticPlan drawn;
  SearchSpace space;
};

// A catalogue model of up to 8 layers on a node. Its devices have a random part of their memory, so
// that it is a real limit. Offload is left out, because it would need a known host.
Case CaseOf(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Case out{RealisticPlanOf(9000 + seed), {}};
  out.drawn.model.layers = std::min<std::int64_t>(out.drawn.model.layers, 8);
  out.drawn.cluster.nodes = 1;
  std::int64_t& memory = out.drawn.cluster.device.memory_bytes;
  memory = memory / 64 * static_cast<std::int64_t>(6 + random() % 59);
  Plan base;
  base.sequence = out.drawn.plan.sequence;
  base.global_batch = 32;
  base.precision = out.drawn.plan.precision;
  out.space = DefaultSpace(out.drawn.model, out.drawn.cluster, 8, base);
  out.space.Choose("offload_optimizer", {0});
  out.space.Choose("offload_activations", {0});
  out.space.Choose("micro_batch", {1, 2, 4});
  out.space.Choose("vpp", {2});
  return out;
}

// Number of plans that need more than a device has, by the compiled and verified program.
int TooLarge(const Case& one, const CostModel& costs, const std::vector<Candidate>& plans) {
  int too_large = 0;
  for (std::size_t i = 0; i < std::min(kTop, plans.size()); ++i) {
    const auto forecast =
        MakeForecast(one.drawn.model, plans[i].plan, costs,
                     {.ranks = RankChoice::kFirst, .simulate = {.timeline = false}});
    EXPECT_TRUE(forecast.has_value()) << Describe(plans[i].plan);
    if (!forecast) continue;
    const FullestDevice fullest =
        FullestDeviceOf(one.drawn.model, forecast->program, forecast->memory, one.drawn.cluster,
                        costs.profile().system);
    if (fullest.memory.Total() > one.drawn.cluster.device.memory_bytes) ++too_large;
  }
  return too_large;
}

// Bar: 0 of 3 out of memory in at least 95 % of cases. In closed form, before a search drops plans
// that compilation shows to be too large: its final results fit by construction.
TEST(TopThree, FitTheirDevicesWhenTheyAreCompiled) {
  if (std::getenv("FORETRAIN_ACCURACY") == nullptr) {
    GTEST_SKIP() << "holds the search to a bar; set FORETRAIN_ACCURACY=1 to run it";
  }
  constexpr std::uint64_t kCases = 100;
  int cases = 0, without = 0, too_large = 0, full = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    const Case one = CaseOf(seed);
    const auto costs = CostModel::Make(one.drawn.cluster, DeriveProfile(one.drawn.cluster));
    ASSERT_TRUE(costs.has_value());
    EnumerateOptions options;
    options.memory_bytes = one.drawn.cluster.device.memory_bytes;
    options.threads = 2;
    const auto found = EnumeratePlans(one.drawn.model, *costs, one.space, 8, options);
    ASSERT_TRUE(found.has_value());
    if (found->fastest.empty()) continue;
    ++cases;
    const auto needs = static_cast<double>(found->fastest.front().estimate.memory_bytes);
    if (needs > 0.9 * static_cast<double>(options.memory_bytes)) ++full;
    const int of_case = TooLarge(one, *costs, found->fastest);
    too_large += of_case;
    if (of_case == 0) ++without;
  }
  std::printf(
      "%d cases, in %d the best takes over 90 %% of a device: 0 of 3 too large in %d; %d "
      "plans too large in all\n",
      cases, full, without, too_large);
  EXPECT_GT(cases, 50);
  EXPECT_GE(without, 0.95 * cases);
}

}  // namespace
}  // namespace foretrain
