// Compares the closed form with simulations and compiled memory. Slow: it simulates thousands of
// steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/peak_memory.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size()));
  return values[std::min(at, values.size() - 1)];
}
double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}
std::vector<double> Sizes(std::vector<double> errors) {
  for (double& error : errors) error = std::fabs(error);
  return errors;
}

struct Errors {
  std::vector<double> time, memory;
  std::map<std::string, std::vector<double>> of_group;  // errors of time
};

Errors ErrorsOf(std::uint64_t plans) {
  Errors errors;
  for (std::uint64_t i = 0; i < plans; ++i) {
    const RealisticPlan drawn = RealisticPlanOf(i);
    const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
    EXPECT_TRUE(costs.has_value());
    const auto forecast =
        MakeForecast(drawn.model, drawn.plan, *costs,
                     {.ranks = RankChoice::kFirst, .simulate = {.timeline = false}});
    EXPECT_TRUE(forecast.has_value()) << i << ' ' << forecast.error().message;
    const Evaluation found = Evaluator(drawn.model, *costs, AllPlanFields()).Evaluate(drawn.plan);
    const double error = found.step_s / forecast->simulation.step_s - 1;
    const auto peak = static_cast<double>(PredictFullestRank(drawn.model, drawn.plan).peak.total);
    if (std::fabs(error) > 0.1) {
      std::printf("%+.1f %% of time: %s %s\n", 100 * error, drawn.model.name.c_str(),
                  Describe(drawn.plan).c_str());
    }
    const double more = static_cast<double>(found.memory_bytes - found.memory.outside) / peak - 1;
    if (more < -0.002) {
      std::printf("%+.1f %% of memory: %s %s\n", 100 * more, drawn.model.name.c_str(),
                  Describe(drawn.plan).c_str());
    }
    errors.time.push_back(error);
    errors.memory.push_back(more);
    errors.of_group[std::string(Name(drawn.plan.schedule))].push_back(error);
    errors.of_group["zero " + std::to_string(drawn.plan.zero_stage)].push_back(error);
    EXPECT_LE(found.bound_s, forecast->simulation.step_s * (1 + 1e-9))
        << i << ' ' << Describe(drawn.plan);
  }
  return errors;
}

// Not all bars are met; see docs/search.md.
constexpr const char* kNotAsked = "holds the search to bars; set FORETRAIN_ACCURACY=1 to run it";
bool IsAsked() { return std::getenv("FORETRAIN_ACCURACY") != nullptr; }

// Bars: median 3 %, 95th percentile 10 %, no schedule and no ZeRO stage off by 5 % on average.
TEST(ClosedForm, IsNearTheSimulationOnRandomPlans) {
  if (!IsAsked()) GTEST_SKIP() << kNotAsked;
  const Errors errors = ErrorsOf(250);
  std::printf("time: median %.2f %%, p95 %.2f %%\n", 100 * Quantile(Sizes(errors.time), 0.5),
              100 * Quantile(Sizes(errors.time), 0.95));
  EXPECT_LE(Quantile(Sizes(errors.time), 0.5), 0.03);
  EXPECT_LE(Quantile(Sizes(errors.time), 0.95), 0.10);
  for (const auto& [group, of_group] : errors.of_group) {
    std::printf("  %-12s %3zu plans, mean %+.2f %%\n", group.c_str(), of_group.size(),
                100 * Mean(of_group));
    EXPECT_LE(std::fabs(Mean(of_group)), 0.05) << group;
  }
  std::printf("memory: median %.2f %%, p95 %.2f %%, least %.2f %%, most %.2f %%\n",
              100 * Quantile(errors.memory, 0.5), 100 * Quantile(errors.memory, 0.95),
              100 * Quantile(errors.memory, 0), 100 * Quantile(errors.memory, 1));
  // Rarely less than the program needs, and seldom much more.
  EXPECT_GE(Quantile(errors.memory, 0), -0.002);
  EXPECT_LE(Quantile(errors.memory, 0.5), 0.01);
  EXPECT_LE(Quantile(errors.memory, 0.95), 0.15);
}

// Spaces of a few dozen plans of a short model, which are simulated completely.
SearchSpace SampledSpace(std::uint64_t seed, const RealisticPlan& drawn) {
  std::mt19937_64 random(seed);
  const auto some = [&](std::vector<std::int64_t> values, std::size_t max) {
    std::shuffle(values.begin(), values.end(), random);
    values.resize(std::min(values.size(), max));
    std::sort(values.begin(), values.end());
    return values;
  };
  SearchSpace space;
  space.base.sequence = drawn.plan.sequence;
  space.base.global_batch = 32;
  space.base.precision = drawn.plan.precision;
  const std::vector<std::int64_t> powers = {1, 2, 4, 8};
  for (const char* axis : {"dp", "tp", "pp"}) space.Choose(axis, powers);
  space.Choose("micro_batch", some({1, 2, 4}, 2));
  space.Choose("schedule", some({static_cast<std::int64_t>(ScheduleKind::k1f1b),
                                 static_cast<std::int64_t>(ScheduleKind::kZbH1),
                                 static_cast<std::int64_t>(ScheduleKind::kGpipe)},
                                2));
  space.Choose("zero_stage", some({0, 1, 2, 3}, 2));
  space.Choose("recompute", some({0, 1, 2}, 1));
  space.Choose("sequence_parallel", some({0, 1}, 1));
  return space;
}

TEST(ClosedForm, LeavesTheBestOfASpaceAmongThoseThatAreSimulated) {
  if (!IsAsked()) GTEST_SKIP() << kNotAsked;
  constexpr int kSpaces = 200;
  int found = 0, larger = 0;
  for (std::uint64_t seed = 0; seed < kSpaces; ++seed) {
    RealisticPlan drawn = RealisticPlanOf(1000 + seed);
    drawn.model.layers = std::min<std::int64_t>(drawn.model.layers, 8);
    drawn.cluster.nodes = 1;
    const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
    ASSERT_TRUE(costs.has_value());
    const SearchSpace space = SampledSpace(seed, drawn);
    SearchOptions options;
    options.ranks = 8;
    const auto result = SearchPlans(drawn.model, *costs, space, options);
    const SpaceWalk walk(drawn.model, space, 8);
    double best_s = 0;
    int fitting = 0;
    Rejections rejected;
    for (std::size_t part = 0; part < walk.parts(); ++part) {
      walk.VisitPart(
          part,
          [&](const Plan& plan) {
            const auto forecast =
                MakeForecast(drawn.model, plan, *costs,
                             {.ranks = RankChoice::kFirst, .simulate = {.timeline = false}});
            if (!forecast) return true;
            const FullestDevice fullest =
                FullestDeviceOf(drawn.model, forecast->program, forecast->memory, drawn.cluster,
                                costs->profile().system);
            if (fullest.memory.Total() > drawn.cluster.device.memory_bytes) return true;
            ++fitting;
            const double step_s = forecast->simulation.step_s;
            if (best_s == 0 || step_s < best_s) best_s = step_s;
            return true;
          },
          [] { return false; }, rejected);
    }
    if (!result) {
      EXPECT_EQ(fitting, 0) << seed << ' ' << result.error().message;
      ++found;
      continue;
    }
    if (fitting > options.simulated) ++larger;
    if (result->plans.front().step_s <= best_s * (1 + 1e-9)) ++found;
  }
  std::printf("best found in %d of %d spaces, %d of them larger than what is simulated at least\n",
              found, kSpaces, larger);
  EXPECT_GE(found, 198);
  EXPECT_GT(larger, kSpaces / 4);
}

}  // namespace
}  // namespace foretrain
