#include "sim/validate/learn_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

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
  while (LearnedConstants()[c].name != name) ++c;
  return c;
}

// Runs on a machine with products a tenth slower and a host a third slower than in the catalogue.
// Learning finds the host, on which small micro-batches depend alone, and forecasts all runs.
// Constants on which these runs do not depend stay unchanged and as unknown as before.
TEST(LearnFromRuns, FindsTheConstantsThatTheRunsCameFrom) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  Learned truth;
  truth.by[Number("product_rate")] = -0.1;
  truth.by[Number("host_op_s")] = 0.3;
  std::vector<PublishedRun> runs = Runs();
  for (PublishedRun& run : runs) run.step_s = PredictRun(run, *sources, &truth).step_s;
  const auto learned = LearnFromRuns(runs, *sources, 1);
  ASSERT_TRUE(learned.has_value()) << learned.error().message;
  EXPECT_EQ(learned->runs, 18);
  EXPECT_GT(learned->error_before, 0.08);
  EXPECT_LT(learned->error_after, 0.02);
  // A slower host and slower products are also told as a longer time of everything: each sum is
  // what the runs show.
  EXPECT_NEAR(learned->by[Number("host_op_s")] + learned->by[Number("all_times")], 0.3, 0.05);
  EXPECT_NEAR(learned->by[Number("product_rate")] - learned->by[Number("all_times")], -0.1, 0.05);
  EXPECT_NEAR(learned->by[Number("network_bytes_per_s")], 0, 1e-6);
  const std::size_t network = Number("network_bytes_per_s");
  EXPECT_NEAR(learned->covariance[network * kLearnedConstants + network], 0.3 * 0.3, 1e-9);
  for (const PublishedRun& run : runs) {
    EXPECT_NEAR(PredictRun(run, *sources, &*learned).step_s / run.step_s, 1, 0.02) << run.id;
  }
}

// All runs take 1.3 times as long as forecast, so forecasts are 23 % too short: 1 - 1 / 1.3. One
// run shows it: those that compute for as long lie within 6 % then, and all others, of which some
// wait for the host, within 15 %. Three runs tell more than one.
TEST(LearnFromRuns, OneRunBringsTheOthersNear) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  std::vector<PublishedRun> runs = Runs();
  for (PublishedRun& run : runs) run.step_s = 1.3 * PredictRun(run, *sources).step_s;
  // Hidden 4096 without tensor parallelism, 16 samples a micro-batch.
  const auto one = LearnFromRuns(std::span(runs).subspan(11, 1), *sources, 1);
  const auto three = LearnFromRuns(std::span(runs).subspan(9, 3), *sources, 1);
  ASSERT_TRUE(one.has_value() && three.has_value());
  EXPECT_EQ(one->runs, 1);
  EXPECT_LT(one->error, kUnfittedError);
  EXPECT_LT(three->error, one->error);
  EXPECT_GT(one->by[Number("all_times")], 0.1);
  for (const PublishedRun& run : runs) {
    const double error = std::abs(PredictRun(run, *sources, &*one).step_s / run.step_s - 1);
    EXPECT_LT(error, run.micro_batch == 16 && run.tp == 1 ? 0.06 : 0.15) << run.id;
  }
}

TEST(LearnFromRuns, RefusesRunsWithoutAMeasuredStep) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  const auto learned = LearnFromRuns(Runs(), *sources, 1);
  ASSERT_FALSE(learned.has_value());
  EXPECT_THAT(learned.error().message, testing::HasSubstr("no measured step"));
}

// Runs twice as fast as any product of an A100. Shares must stay at most 1, and rates of links
// below the published 300 GB/s.
TEST(LearnFromRuns, KeepsConstantsWithinWhatTheyStandFor) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  std::vector<PublishedRun> runs = Runs();
  for (PublishedRun& run : runs) run.step_s = PredictRun(run, *sources).step_s / 4;
  const auto learned = LearnFromRuns(runs, *sources, 1);
  ASSERT_TRUE(learned.has_value()) << learned.error().message;
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    EXPECT_GE(learned->by[c], LearnedConstants()[c].min) << LearnedConstants()[c].name;
    EXPECT_LE(learned->by[c], LearnedConstants()[c].max) << LearnedConstants()[c].name;
  }
  DeviceProfile profile = DeriveProfile(CaseOf(runs.front(), *sources)->cluster);
  ApplyLearned(*learned, "", profile);
  EXPECT_LE(profile.kernels->architecture.sustained_share.value, 1);
  EXPECT_LE(profile.kernels->architecture.memory_efficiency.value, 1);
  EXPECT_LE(profile.kernels->architecture.score_efficiency.value, 1);
  EXPECT_LE(profile.rates.link_bytes_per_s.value, 300e9);
  EXPECT_GE(profile.rates.member_skew_s.value, 0);
}

TEST(ApplyLearned, LeavesItsErrorWithTheProfile) {
  DeviceProfile profile;
  profile.rates.launch_s = {70e-6, Provenance::kDefault};
  Learned learned;
  learned.by[Number("host_op_s")] = std::log(2.0);
  learned.by[Number("member_skew_s")] = 0.5;  // in units of 20 us
  learned.error = 0.07;
  learned.runs = 3;
  ApplyLearned(learned, "megatron", profile);
  EXPECT_NEAR(profile.rates.launch_s.value, 140e-6, 1e-12);
  EXPECT_EQ(profile.rates.launch_s.provenance, Provenance::kInterpolated);
  EXPECT_NEAR(profile.rates.member_skew_s.value, 10e-6, 1e-12);
  EXPECT_DOUBLE_EQ(profile.error, 0.07);
  ASSERT_TRUE(profile.learned.has_value());
  EXPECT_EQ(profile.learned->runs, 3);
  EXPECT_EQ(profile.learned->preset, "megatron");
}

// Rows of two models in one family: each model is a group of its own, and too few rows are none.
TEST(RunGroups, HoldOneModelOnOneNumberOfDevices) {
  const auto sources = BuiltInCaseSources();
  ASSERT_TRUE(sources.has_value()) << sources.error().message;
  std::vector<PublishedRun> runs = Runs();  // nine rows of hidden 2048, then nine of 4096
  for (std::size_t i = 0; i < 12; ++i) runs[i].step_s = 1;
  const std::vector<RunGroup> groups = RunGroupsOf(runs, *sources, 3);
  ASSERT_EQ(groups.size(), 1U);  // three rows of 4096 are measured: fewer than four
  EXPECT_EQ(groups[0].gpus, 8);
  EXPECT_THAT(groups[0].learned, testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(groups[0].scored, testing::ElementsAre(3, 4, 5, 6, 7, 8));
}

// Scored rows miss by ln 2 before and by ln 1.1 after; the refused one does not count.
TEST(LearnedScores, AreMediansOverRowsAndGroups) {
  std::vector<PublishedRun> runs(3);
  for (PublishedRun& run : runs) run.step_s = 1;
  const RunGroup group{"f", "GPT", 8, {0}, {1, 2}};
  GroupForecasts forecasts;
  forecasts.before.resize(2);
  forecasts.after.resize(2);
  forecasts.before[0].step_s = 2;
  forecasts.after[0].step_s = 1 / 1.1;
  forecasts.before[1].refused = forecasts.after[1].refused = "no";
  const auto scores = ScoreLearned(std::vector{group}, std::vector{forecasts}, runs);
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0].family, "f");
  EXPECT_EQ(scores[0].rows, 1);
  EXPECT_NEAR(scores[0].before, std::log(2.0), 1e-12);
  EXPECT_NEAR(scores[0].after, std::log(1.1), 1e-12);
  EXPECT_EQ(scores[1].family, "");
  EXPECT_NEAR(scores[1].after, std::log(1.1), 1e-12);
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
