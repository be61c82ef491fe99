#include "ui/stored_run.h"

#include <gtest/gtest.h>

#include "sim/config/plan/plan_json.h"
#include "tests/ui/hand_made.h"

namespace foretrain {
namespace {

StoredRun Stored() {
  StoredRun run;
  run.info.id = 7;
  run.info.label = "dp1 pp2";
  run.info.kind = RunKind::kMeasured;
  run.info.totals = {.dropped = 2, .invalid = 1, .overhead_ns = 24, .clock_error_ns = 5};
  run.info.program_hash = 0xabc;
  run.timeline = TwoRanks().measured->timeline;
  run.timeline.steps.clear();
  return run;
}

TEST(StoredRunView, CarriesTheRecordingsFaults) {
  const RunView view = RunViewOf(Stored());
  EXPECT_EQ(view.label, "run 7: dp1 pp2");
  EXPECT_EQ(view.dropped, 2);
  EXPECT_EQ(view.invalid, 1);
  EXPECT_EQ(view.clock_error_ns, 5);
  EXPECT_EQ(view.program_hash, "0000000000000abc");
  // Windows of 240 ns on both ranks: 24 of 480 ns are overhead.
  ASSERT_EQ(view.timeline.steps.size(), 2U);
  EXPECT_DOUBLE_EQ(view.overhead.value(), 0.05);
  EXPECT_FALSE(view.emulated);
}

TEST(StoredRunView, CarriesTheCountersOfGpus) {
  StoredRun run = Stored();
  EXPECT_EQ(RunViewOf(run).gpu_counters, nullptr);
  run.counters = {{"loss", -1, 0, 0, 2.5}, {"gpu_sm_activity", 1, -1, 5, 0.75}};
  const RunView view = RunViewOf(std::move(run));
  ASSERT_NE(view.gpu_counters, nullptr);
  ASSERT_EQ(view.gpu_counters->size(), 1U);
  EXPECT_EQ(view.gpu_counters->front().rank, 1);
  EXPECT_EQ(view.gpu_counters->front().readings.front().value, 0.75);
}

TEST(StoredRunView, ReadsItsPlan) {
  StoredRun run = Stored();
  Plan plan;
  plan.pp = 2;
  plan.global_batch = 4;
  plan.micro_batch = 1;
  plan.sequence = 128;
  run.specs.plan_json = ToJson(plan);
  const RunView view = RunViewOf(std::move(run));
  EXPECT_DOUBLE_EQ(view.metrics.tokens_per_step, 4.0 * 128);
  ASSERT_EQ(view.metrics.pipelines.size(), 1U);
  EXPECT_EQ(view.metrics.pipelines[0], (Pipeline{0, 1}));
  EXPECT_EQ(view.metrics.warmup_steps, 0);  // one step only
}

TEST(StoredRunView, TakesTheCallersMetricsOverItsOwn) {
  const RunView view = RunViewOf(Stored(), MetricOptions{.warmup_steps = 3, .tokens_per_step = 9});
  EXPECT_DOUBLE_EQ(view.metrics.tokens_per_step, 9.0);
  EXPECT_EQ(view.metrics.warmup_steps, 3);
}

TEST(StoredRunView, LeavesOutSpecsItCannotRead) {
  StoredRun run = Stored();
  run.specs = {.model_json = "{", .hardware_json = "[]", .plan_json = "null"};
  run.details_json = "{\"emulated\": true}";
  const RunView view = RunViewOf(std::move(run));
  EXPECT_EQ(view.layers, 0);
  EXPECT_TRUE(view.metrics.pipelines.empty());
  EXPECT_FALSE(view.device_bytes.has_value());
  EXPECT_TRUE(view.emulated);
}

TEST(StoredRunView, CountsAForecastsLastStepAlone) {
  StoredRun run = Stored();
  run.info.kind = RunKind::kPredicted;
  run.timeline = RunOfSpans({ComputeSpan({.step = 0}, 0, 30), ComputeSpan({.step = 1}, 30, 50),
                             ComputeSpan({.step = 2}, 50, 60)})
                     .timeline;
  EXPECT_EQ(RunViewOf(run).metrics.warmup_steps, 2);
  run.info.kind = RunKind::kMeasured;
  EXPECT_EQ(RunViewOf(run).metrics.warmup_steps, 1);
}

}  // namespace
}  // namespace foretrain
