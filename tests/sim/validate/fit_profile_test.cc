#include "sim/validate/fit_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/validate/predict_run.h"

namespace foretrain {
namespace {

// GPT with 12 layers on eight A100, as in tests/data/validation/vtrain.csv.
PublishedRun RunOf(int number, std::int64_t hidden, int tp, std::int64_t micro_batch) {
  PublishedRun run;
  run.id = "vtrainsingle-" + std::to_string(number);
  run.family = "vtrainsingle";
  run.model = "GPT";
  run.layers = 12;
  run.hidden = hidden;
  run.heads = 16;
  run.ffn_hidden = 4 * hidden;
  run.vocab = 51200;
  run.sequence = 1024;
  run.gpu = "A100-40GB-SXM";
  run.gpus = run.gpus_per_node = 8;
  run.dtype = "fp16";
  run.recompute = "full";
  run.tp = tp;
  run.dp = 8 / tp;
  run.vpp = 1;
  run.micro_batch = micro_batch;
  run.global_batch = micro_batch * run.dp * 4;
  return run;
}

std::vector<PublishedRun> Runs() {
  std::vector<PublishedRun> runs;
  for (const std::int64_t hidden : {2048, 4096}) {
    for (const int tp : {1, 2, 8}) {
      for (const std::int64_t micro_batch : {1, 4, 16}) {
        runs.push_back(RunOf(static_cast<int>(runs.size()), hidden, tp, micro_batch));
      }
    }
  }
  return runs;
}

std::size_t Number(std::string_view name) {
  std::size_t c = 0;
  while (FitConstants()[c].name != name) ++c;
  return c;
}

// Runs on a machine with products a tenth slower and a host a third slower than in the catalogue.
// The fit finds both. Constants on which these runs do not depend stay unchanged.
TEST(FitProfile, FindsTheConstantsThatTheRunsCameFrom) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  ProfileFit truth;
  truth.by[Number("product_rate")] = -0.1;
  truth.by[Number("host_op_s")] = 0.3;
  std::vector<PublishedRun> runs = Runs();
  for (PublishedRun& run : runs) run.step_s = PredictRun(run, *sources, &truth).step_s;
  const auto fit = FitProfile(runs, *sources, 1);
  ASSERT_TRUE(fit.has_value()) << fit.error().message;
  EXPECT_EQ(fit->rows, 18);
  EXPECT_GT(fit->error_before, 0.08);
  EXPECT_LT(fit->error_after, 0.02);
  EXPECT_NEAR(fit->by[Number("host_op_s")], 0.3, 0.05);
  EXPECT_NEAR(fit->by[Number("product_rate")], -0.1, 0.05);
  EXPECT_NEAR(fit->by[Number("network_bytes_per_s")], 0, 1e-6);
  for (const PublishedRun& run : runs) {
    EXPECT_NEAR(PredictRun(run, *sources, &*fit).step_s / run.step_s, 1, 0.02) << run.id;
  }
}

TEST(FitProfile, RefusesFewerRowsThanConstants) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  std::vector<PublishedRun> runs = Runs();  // only one was measured
  runs.front().step_s = 1;
  const auto fit = FitProfile(runs, *sources, 1);
  ASSERT_FALSE(fit.has_value());
  EXPECT_THAT(fit.error().message, testing::HasSubstr("1 rows"));
}

// Runs twice as fast as any product of an A100. Shares must stay at most 1, and rates of links
// below the published 300 GB/s.
TEST(FitProfile, KeepsConstantsWithinWhatTheyStandFor) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  std::vector<PublishedRun> runs = Runs();
  for (PublishedRun& run : runs) run.step_s = PredictRun(run, *sources).step_s / 4;
  const auto fit = FitProfile(runs, *sources, 1);
  ASSERT_TRUE(fit.has_value()) << fit.error().message;
  for (std::size_t c = 0; c < kFitConstants; ++c) {
    EXPECT_GE(fit->by[c], FitConstants()[c].min) << FitConstants()[c].name;
    EXPECT_LE(fit->by[c], FitConstants()[c].max) << FitConstants()[c].name;
  }
  DeviceProfile profile = DeriveProfile(CaseOf(runs.front(), *sources)->cluster);
  ApplyFit(*fit, profile);
  EXPECT_LE(profile.kernels->architecture.sustained_share.value, 1);
  EXPECT_LE(profile.kernels->architecture.memory_efficiency.value, 1);
  EXPECT_LE(profile.kernels->architecture.score_efficiency.value, 1);
  EXPECT_LE(profile.rates.link_bytes_per_s.value, 300e9);
  EXPECT_GE(profile.rates.member_skew_s.value, 0);
}

TEST(FitProfile, LeavesItsErrorWithTheProfile) {
  DeviceProfile profile;
  profile.rates.launch_s = {70e-6, Provenance::kDefault};
  ProfileFit fit;
  fit.by[Number("host_op_s")] = std::log(2.0);
  fit.by[Number("member_skew_s")] = 0.5;  // in units of 20 us
  fit.error_after = 0.07;
  ApplyFit(fit, profile);
  EXPECT_NEAR(profile.rates.launch_s.value, 140e-6, 1e-12);
  EXPECT_EQ(profile.rates.launch_s.provenance, Provenance::kInterpolated);
  EXPECT_NEAR(profile.rates.member_skew_s.value, 10e-6, 1e-12);
  EXPECT_DOUBLE_EQ(profile.error, 0.07);
}

// 1.645 * 0.2 = 0.329; e^0.329 = 1.38958.
TEST(ForecastInterval, HoldsNineTenthsOfALogarithmicNormal) {
  const ForecastInterval interval = ForecastIntervalOf(10, 0.2);
  EXPECT_NEAR(interval.high_s, 13.8958, 1e-3);
  EXPECT_NEAR(interval.low_s, 7.1964, 1e-3);
  EXPECT_TRUE(interval.Holds(10));
  EXPECT_FALSE(interval.Holds(14));
}

}  // namespace
}  // namespace foretrain
