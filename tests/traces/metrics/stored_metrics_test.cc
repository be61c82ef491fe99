#include "traces/metrics/stored_metrics.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

TEST(StoredMetrics, GiveBackTheMetricsTheyWereMadeFrom) {
  std::mt19937_64 random(5);
  Timeline timeline = RandomTimeline(random, 2, 400);
  timeline.steps.clear();
  DeriveSteps(timeline);
  const MetricOptions options{.warmup_steps = 1, .tokens_per_step = 1000.0};
  const Metrics metrics = ComputeMetrics(timeline, options);
  ASSERT_TRUE(metrics.overall.has_value());
  const Metrics back = MetricsFromStored(Flatten(metrics), timeline.steps, options);
  ASSERT_TRUE(back.overall.has_value());
  EXPECT_EQ(back.overall->step, metrics.overall->step);
  EXPECT_EQ(back.overall->time_s, metrics.overall->time_s);
  EXPECT_EQ(back.overall->tokens_per_s, metrics.overall->tokens_per_s);
  EXPECT_EQ(back.overall->classes.compute_s, metrics.overall->classes.compute_s);
  EXPECT_EQ(back.coverage, metrics.coverage);
  EXPECT_EQ(back.peak_bytes, metrics.peak_bytes);
  ASSERT_EQ(back.steps.size(), metrics.steps.size());
  for (std::size_t i = 0; i < back.steps.size(); ++i) {
    EXPECT_EQ(back.steps[i].step, metrics.steps[i].step);
    EXPECT_EQ(back.steps[i].counted, metrics.steps[i].counted);
    EXPECT_EQ(back.steps[i].time_s, metrics.steps[i].time_s);
    EXPECT_EQ(back.steps[i].overlap, metrics.steps[i].overlap);
  }
  for (const MemoryPeak& peak : back.memory) {
    EXPECT_EQ(peak.step, -1);
    bool found = false;
    for (const MemoryPeak& other : metrics.memory) {
      if (other.rank != peak.rank || other.space != peak.space || other.step != -1) continue;
      found = true;
      EXPECT_EQ(peak.bytes, other.bytes);
      EXPECT_EQ(peak.parts, other.parts);
    }
    EXPECT_TRUE(found);
  }
}

TEST(StoredMetrics, AreTimesAloneWhereNothingWasStored) {
  const std::vector<StepWindow> windows{{0, 100, 4, 0}, {0, 120, 4, 1}, {120, 300, 5, 0}};
  const Metrics metrics = MetricsFromStored({}, windows, {});
  ASSERT_TRUE(metrics.overall.has_value());
  EXPECT_EQ(metrics.overall->step, 4);                // the lower of the middle two
  EXPECT_DOUBLE_EQ(metrics.overall->time_s, 150e-9);  // of 120 and 180 ns
  EXPECT_FALSE(metrics.overall->mfu.has_value());
  EXPECT_EQ(metrics.overall->classes.window_s, 0.0);
  EXPECT_FALSE(MetricsFromStored({}, {}, {}).overall.has_value());
}

TEST(StoredMetrics, LeaveOutWhatCannotBe) {
  const std::vector<StepWindow> windows{{0, 100, 0, 0}};
  const std::vector<MetricValue> values{{0, -1, "peak_device_bytes", 1e300},
                                        {0, -1, "peak_nowhere_bytes", 5.0},
                                        {-1, 9, "mfu", 0.5},
                                        {-1, -1, "mfu", std::nan("")}};
  const Metrics metrics = MetricsFromStored(values, windows, {});
  EXPECT_TRUE(metrics.memory.empty());
  EXPECT_FALSE(metrics.overall->mfu.has_value());
}

}  // namespace
}  // namespace foretrain
