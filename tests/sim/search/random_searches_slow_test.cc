// Random searches: their results keep every limit, are reproducible, and are not slower on better
// machines. FORETRAIN_SEARCHES sets their number, which makes the test slow, and FORETRAIN_NIGHT
// which of them: each night has its own, so that the cases of many nights add up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "sim/cost/profile/derive_profile.h"
#include "sim/search/space/enumerate.h"
#include "tests/number_of_cases.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// Seeds of this night's searches.
struct Seeds {
  std::uint64_t begin = 0, end = 0;
};
Seeds SeedsOfTonight() {
  const auto searches = static_cast<std::uint64_t>(CasesOr("FORETRAIN_SEARCHES", 60));
  const char* const night = std::getenv("FORETRAIN_NIGHT");
  const std::uint64_t begin =
      night == nullptr ? 0 : static_cast<std::uint64_t>(std::max(0, std::atoi(night))) * searches;
  std::printf("searches %llu to %llu\n", static_cast<unsigned long long>(begin),
              static_cast<unsigned long long>(begin + searches - 1));
  return {begin, begin + searches};
}

struct RandomSearch {
  ModelSpec model;
  ClusterSpec cluster;
  SearchSpace space;
  EnumerateOptions options;
};

// One to eight devices of a node with a random part of their memory.
RandomSearch SearchOf(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const RealisticPlan drawn = RealisticPlanOf(5000 + seed);
  RandomSearch out{drawn.model, drawn.cluster, {}, {}};
  out.model.layers = std::min<std::int64_t>(out.model.layers, 8);
  out.cluster.nodes = 2;
  const auto some = [&](std::vector<std::int64_t> values, std::size_t max) {
    std::shuffle(values.begin(), values.end(), random);
    values.resize(std::min(values.size(), max));
    return values;
  };
  out.space.base.sequence = drawn.plan.sequence;
  out.space.base.global_batch = 64;
  out.space.base.precision = drawn.plan.precision;
  for (const char* axis : {"dp", "tp", "pp", "cp"})
    out.space.Choose(axis, some({1, 2, 4, 8, 16}, 4));
  out.space.Choose("micro_batch", some({1, 2, 4}, 2));
  out.space.Choose("schedule", some({0, 1, 2, 3, 4}, 2));
  out.space.Choose("zero_stage", some({0, 1, 2, 3}, 2));
  out.space.Choose("recompute", some({0, 1, 2}, 2));
  out.space.Choose("sequence_parallel", some({0, 1}, 2));
  out.options.memory_bytes = std::max<std::int64_t>(
      1, out.cluster.device.memory_bytes / 64 * static_cast<std::int64_t>(1 + random() % 64));
  out.options.kept = 16;
  return out;
}

Result<Enumeration> Found(const RandomSearch& search, int threads) {
  const auto costs = CostModel::Make(search.cluster, DeriveProfile(search.cluster));
  if (!costs) return tl::unexpected<Error>(costs.error());
  EnumerateOptions options = search.options;
  options.threads = threads;
  return EnumeratePlans(search.model, *costs, search.space, search.cluster.Devices(), options);
}

TEST(RandomSearches, ReturnPlansThatKeepEveryLimitAndTheSameOnesAgain) {
  std::int64_t plans = 0, looked_at = 0;
  const Seeds seeds = SeedsOfTonight();
  for (std::uint64_t seed = seeds.begin; seed < seeds.end; ++seed) {
    const RandomSearch search = SearchOf(seed);
    const auto found = Found(search, 1), again = Found(search, 3);
    ASSERT_TRUE(found.has_value() && again.has_value()) << seed;
    const SpaceWalk walk(search.model, search.space, search.cluster.Devices());
    EXPECT_EQ(found->evaluated + found->rejected.count(), walk.size()) << seed;
    looked_at += walk.size();
    for (const auto list : {&Enumeration::fastest, &Enumeration::front}) {
      ASSERT_EQ(((*found).*list).size(), ((*again).*list).size()) << seed;
      for (std::size_t i = 0; i < ((*found).*list).size(); ++i) {
        const Candidate& one = ((*found).*list)[i];
        EXPECT_EQ(one.plan, ((*again).*list)[i].plan) << seed;
        EXPECT_TRUE(ValidatePlan(one.plan, search.model).has_value()) << Describe(one.plan);
        EXPECT_EQ(one.plan.World(), search.cluster.Devices());
        EXPECT_LE(one.estimate.memory_bytes, search.options.memory_bytes) << Describe(one.plan);
        EXPECT_TRUE(std::isfinite(one.estimate.step_s) && one.estimate.step_s > 0);
        EXPECT_GE(one.estimate.step_s, found->bound_s * (1 - 1e-9)) << Describe(one.plan);
        ++plans;
      }
    }
  }
  std::printf("%lld plans returned of %lld\n", static_cast<long long>(plans),
              static_cast<long long>(looked_at));
  EXPECT_GT(plans, 0);
}

TEST(RandomSearches, AreNotSlowerWithMoreMemoryOrFasterLinks) {
  int pairs = 0;
  const Seeds seeds = SeedsOfTonight();
  for (std::uint64_t seed = seeds.begin; seed < seeds.end; ++seed) {
    const RandomSearch search = SearchOf(seed);
    const auto found = Found(search, 1);
    ASSERT_TRUE(found.has_value()) << seed;
    if (found->fastest.empty()) continue;
    const double best_s = found->fastest.front().estimate.step_s;
    const auto expect_no_worse = [&](const char* what, const RandomSearch& better) {
      const auto other = Found(better, 1);
      ASSERT_TRUE(other.has_value() && !other->fastest.empty()) << seed << ' ' << what;
      EXPECT_LE(other->fastest.front().estimate.step_s, best_s * (1 + 1e-9)) << seed << ' ' << what;
      ++pairs;
    };
    RandomSearch better = search;
    better.options.memory_bytes += better.options.memory_bytes / 2;
    expect_no_worse("more memory", better);
    better = search;
    better.cluster.device.link_bytes_per_s *= 2;
    expect_no_worse("faster links", better);
    better = search;
    better.cluster.network_bytes_per_s *= 2;
    expect_no_worse("a faster network", better);
  }
  std::printf("%d pairs\n", pairs);
}

}  // namespace
}  // namespace foretrain
