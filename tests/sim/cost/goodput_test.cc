#include "sim/cost/goodput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace foretrain {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Le;

double Sum(const Goodput& goodput) {
  return goodput.share + goodput.saving + goodput.repeated + goodput.restarting;
}

// Plays failures one by one: work and standstill alternate, and a checkpoint counts once it is
// written, beside the work that follows it.
Goodput Played(double every_s, const CheckpointCost& cost, const Failures& failures, int count) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> until(1 / failures.mtbf_s);
  Goodput sum;
  double kept_s = 0, saving_s = 0, restarting_s = 0, all_s = 0;
  for (int i = 0; i < count; ++i) {
    const double alive_s = until(random);
    all_s += alive_s;
    if (alive_s < failures.restart_s) {
      restarting_s += alive_s;
      continue;
    }
    restarting_s += failures.restart_s;
    const double ran_s = alive_s - failures.restart_s - cost.write_s;
    const double saves = std::floor(std::max(0.0, ran_s) / (every_s + cost.copy_s));
    kept_s += saves * every_s;
    saving_s += saves * cost.copy_s;
  }
  sum.share = kept_s / all_s;
  sum.saving = saving_s / all_s;
  sum.restarting = restarting_s / all_s;
  sum.repeated = 1 - sum.share - sum.saving - sum.restarting;
  return sum;
}

TEST(Goodput, IsThatOfFailuresPlayedOneByOne) {
  for (const double mtbf_s : {600.0, 10'000.0}) {
    for (const double every_s : {60.0, 900.0}) {
      for (const double restart_s : {0.0, 120.0}) {
        const CheckpointCost cost{.copy_s = 5, .write_s = 40};
        const Failures failures{mtbf_s, restart_s};
        const Goodput forecast = GoodputOf(every_s, cost, failures);
        const Goodput played = Played(every_s, cost, failures, 400'000);
        EXPECT_NEAR(forecast.share, played.share, 0.005) << mtbf_s << " " << every_s;
        EXPECT_NEAR(forecast.saving, played.saving, 0.005);
        EXPECT_NEAR(forecast.restarting, played.restarting, 0.005);
        EXPECT_NEAR(forecast.repeated, played.repeated, 0.005);
        EXPECT_NEAR(Sum(forecast), 1, 1e-12);
      }
    }
  }
}

TEST(Goodput, IsTheShareOfWorkWhereFailuresAreRare) {
  const Goodput goodput = GoodputOf(90, {.copy_s = 10}, {.mtbf_s = 1e12, .restart_s = 100});
  EXPECT_NEAR(goodput.share, 0.9, 1e-6);
  EXPECT_NEAR(goodput.saving, 0.1, 1e-6);
}

// A save waits for the one before, so that writing limits how often they come.
TEST(Goodput, CountsWorkWhileASaveWaitsForTheOneBefore) {
  const Goodput goodput = GoodputOf(10, {.copy_s = 10, .write_s = 90}, {.mtbf_s = 1e12});
  EXPECT_NEAR(goodput.share, 0.9, 1e-6);
}

TEST(BestSaveInterval, HasTheBestGoodput) {
  for (const double mtbf_s : {1000.0, 1e5}) {
    for (const double copy_s : {0.1, 30.0}) {
      const CheckpointCost cost{.copy_s = copy_s, .write_s = 1};
      const Failures failures{mtbf_s, 60};
      const double best_s = BestSaveInterval(cost, failures);
      const double best = GoodputOf(best_s, cost, failures).share;
      for (const double factor : {0.5, 0.9, 1.1, 2.0}) {
        EXPECT_LT(GoodputOf(best_s * factor, cost, failures).share, best) << factor;
      }
      // Young's estimate, which holds where saves are short beside the time between failures.
      EXPECT_THAT(best_s / std::sqrt(2 * copy_s * mtbf_s), AllOf(Ge(0.8), Le(1.2)));
    }
  }
}

TEST(BestSaveInterval, IsNoShorterThanTheWriting) {
  EXPECT_EQ(BestSaveInterval({.copy_s = 0.1, .write_s = 500}, {.mtbf_s = 1000}), 500);
}

}  // namespace
}  // namespace foretrain
