#include "traces/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

TEST(StatisticsOf, FindsMedianQuartilesAndLimits) {
  // Sorted 1 2 4 8 10: median 4, quartiles 2 and 8, spread 6 / 4.
  const std::vector<double> odd = {8, 1, 10, 4, 2};
  const Statistics statistics = StatisticsOf(odd);
  EXPECT_EQ(statistics.count, 5);
  EXPECT_DOUBLE_EQ(statistics.median, 4);
  EXPECT_DOUBLE_EQ(statistics.mean, 5);
  EXPECT_DOUBLE_EQ(statistics.min, 1);
  EXPECT_DOUBLE_EQ(statistics.max, 10);
  EXPECT_DOUBLE_EQ(statistics.spread, 1.5);
  // Sorted 1 3: quartiles at 1.5 and 2.5.
  const std::vector<double> even = {3, 1};
  EXPECT_DOUBLE_EQ(StatisticsOf(even).median, 2);
  EXPECT_DOUBLE_EQ(StatisticsOf(even).spread, 0.5);
  EXPECT_EQ(StatisticsOf({}).count, 0);
}

TEST(Utilisation, IsTheShareOfThePeakRate) {
  // 6e12 flops in 2 s on 10e12 flop/s.
  EXPECT_EQ(Utilisation(6e12, 2.0, 10e12), 0.3);
  EXPECT_EQ(Utilisation(0, 2.0, 10e12), std::nullopt);
  EXPECT_EQ(Utilisation(6e12, 0.0, 10e12), std::nullopt);
  EXPECT_EQ(Utilisation(6e12, 2.0, 0), std::nullopt);
}

// Two ranks, three steps of 1, 3 and 2 s on rank 0; rank 1's windows are half as long. Rank 0
// computes in half of each window, rank 1 in all of it.
Timeline ThreeSteps() {
  Timeline timeline;
  timeline.world = 2;
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::int64_t start = 0;
  int step = 0;
  for (const std::int64_t length : {1 * kSecond, 3 * kSecond, 2 * kSecond}) {
    timeline.steps.push_back({start, start + length, step, 0});
    timeline.steps.push_back({start, start + length / 2, step, 1});
    for (const int rank : {0, 1}) {
      timeline.spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, start, start + length / 2,
                                      PackId({.pass = Pass::kForward}, 0), rank, step));
    }
    start += length;
    ++step;
  }
  SortTimeline(timeline);
  return timeline;
}

TEST(ComputeMetrics, TakesTheLongestWindowOfAStepAndTheMedianOverSteps) {
  const Metrics metrics = ComputeMetrics(ThreeSteps(), {.tokens_per_step = 100,
                                                        .model_flops_per_step = 6e12,
                                                        .hardware_flops_per_step = 8e12,
                                                        .peak_flop_per_s = 10e12});
  ASSERT_EQ(metrics.steps.size(), 3U);
  EXPECT_DOUBLE_EQ(metrics.steps[1].time_s, 3.0);
  EXPECT_DOUBLE_EQ(*metrics.steps[1].tokens_per_s, 100 / 3.0);
  ASSERT_TRUE(metrics.overall.has_value());
  EXPECT_DOUBLE_EQ(metrics.overall->time_s, 2.0);
  EXPECT_DOUBLE_EQ(*metrics.overall->tokens_per_s, 50);
  EXPECT_DOUBLE_EQ(*metrics.overall->mfu, 0.3);
  EXPECT_DOUBLE_EQ(*metrics.overall->hfu, 0.4);
  EXPECT_EQ(metrics.overall->overlap, std::nullopt);
  EXPECT_EQ(metrics.overall->bubble, std::nullopt);
  // Step 2 is the median: windows of 2 and 1 s, 1 s of compute on each.
  EXPECT_EQ(metrics.overall->step, 2);
  EXPECT_DOUBLE_EQ(metrics.overall->classes.window_s, 1.5);
  EXPECT_DOUBLE_EQ(metrics.overall->classes.compute_s, 1.0);
  EXPECT_DOUBLE_EQ(metrics.overall->classes.idle_s, 0.5);
}

TEST(ComputeMetrics, LeavesWarmupStepsOutOfTheMedians) {
  const Metrics metrics = ComputeMetrics(ThreeSteps(), {.warmup_steps = 1});
  EXPECT_FALSE(metrics.steps[0].counted);
  EXPECT_EQ(metrics.step_time_s.count, 2);
  EXPECT_DOUBLE_EQ(metrics.overall->time_s, 2.5);  // of 3 and 2
  EXPECT_EQ(metrics.overall->step, 2);             // the lower of the two
  // If no step would remain, all steps count.
  EXPECT_EQ(ComputeMetrics(ThreeSteps(), {.warmup_steps = 3}).step_time_s.count, 3);
}

TEST(ComputeMetrics, OfAPipelineHasItsBubbles) {
  // p = 4, m = 8: 3 / 11 and 3 / 8.
  const Metrics metrics =
      ComputeMetrics(Uniform1F1B(4, 8, 10, 20), {.pipelines = PipelinesOf(4, 4)});
  ASSERT_TRUE(metrics.overall.has_value());
  EXPECT_DOUBLE_EQ(*metrics.overall->bubble, 3.0 / 11.0);
  EXPECT_NEAR(*metrics.overall->bubble_overhead, 3.0 / 8.0, 1e-12);
  EXPECT_DOUBLE_EQ(metrics.coverage, 1.0);
}

TEST(ComputeMetrics, SumsOverlapOverRanks) {
  // Rank 0 hides 10 of 10, rank 1 hides 0 of 30: 10 / 40.
  Timeline timeline;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 50, kNoOp, 0),
                    SpanOf(Queue::kTp, OpClass::kTpComm, 0, 10, kNoOp, 0),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 0, 20, kNoOp, 1),
                    SpanOf(Queue::kTp, OpClass::kTpComm, 20, 50, /*op=*/1, 1)};
  timeline.steps = {{0, 50, 0, 0}, {0, 50, 0, 1}};
  SortTimeline(timeline);
  const Metrics metrics = ComputeMetrics(timeline);
  EXPECT_DOUBLE_EQ(*metrics.steps[0].overlap, 0.25);
  EXPECT_DOUBLE_EQ(metrics.coverage, 30.0 / 110.0);
}

TEST(ComputeMetrics, OfNothingHasNoMetrics) {
  const Metrics metrics = ComputeMetrics({});
  EXPECT_FALSE(metrics.overall.has_value());
  EXPECT_TRUE(metrics.steps.empty());
  EXPECT_EQ(metrics.coverage, 1.0);
}

TEST(ComputeMetrics, SumsExactlyOnRandomTimelines) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 20; ++round) {
    const Timeline timeline = RandomTimeline(random, 4, 400);
    const Metrics metrics = ComputeMetrics(timeline, {.pipelines = PipelinesOf(4, 2)});
    ASSERT_EQ(metrics.rank_steps.size(), timeline.steps.size());
    for (const RankStep& step : metrics.rank_steps) {
      ASSERT_EQ(step.classes.Sum(), step.end_ns - step.start_ns);
      ASSERT_EQ(step.idle.Sum(), step.classes.host_ns + step.classes.idle_ns);
      ASSERT_LE(step.hidden_communication_ns, step.classes.compute_ns);
    }
    for (const PipelineBubble& bubble : metrics.bubbles) {
      ASSERT_GE(bubble.bubble, 0.0);
      ASSERT_LE(bubble.bubble, 1.0);
    }
  }
}

// Windows of steps [first, end) with the spans and samples around them, as the store loads a part.
Timeline PartOf(const Timeline& whole, int first, int end) {
  Timeline part = whole;
  std::erase_if(part.steps, [&](const StepWindow& window) {
    return window.step < first || window.step >= end;
  });
  std::erase_if(part.spans,
                [&](const Span& span) { return span.step < first - 1 || span.step > end; });
  return part;
}

TEST(MetricsInParts, SaysWhatComputeMetricsSaysOfTheWhole) {
  std::mt19937_64 random(23);
  for (int round = 0; round < 5; ++round) {
    const Timeline timeline = RandomTimeline(random, 4, 2000);
    const MetricOptions options{.pipelines = PipelinesOf(4, 2), .warmup_steps = 1};
    const Metrics whole = ComputeMetrics(timeline, options);
    int last = 0;
    for (const StepWindow& window : timeline.steps) last = std::max(last, window.step);
    ASSERT_GT(last, 5);
    MetricsInParts parts(options);
    std::vector<MetricValue> values;
    for (int first = 0; first <= last; first += 2) {
      const auto of_part = parts.Add(PartOf(timeline, first, std::min(first + 2, last + 1)));
      values.insert(values.end(), of_part.begin(), of_part.end());
    }
    const auto of_whole = Flatten(parts.Take(), /*steps=*/false);
    values.insert(values.end(), of_whole.begin(), of_whole.end());
    EXPECT_THAT(values, testing::UnorderedElementsAreArray(Flatten(whole))) << round;
  }
}

TEST(MetricsInParts, CountsWorkWithoutAnOpOnce) {
  Timeline timeline;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 50, /*op=*/1, 0),
                    SpanOf(Queue::kCompute, OpClass::kMemoryBound, 50, 60, kNoOp, 0),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 60, 90, /*op=*/1, 0)};
  timeline.spans[1].step = -1;
  timeline.spans[2].step = 1;
  timeline.steps = {{0, 60, 0, 0}, {60, 90, 1, 0}};
  MetricsInParts parts({});
  for (int first = 0; first < 2; ++first) parts.Add(PartOf(timeline, first, first + 1));
  EXPECT_DOUBLE_EQ(parts.Take().coverage, 80.0 / 90.0);
}

TEST(DeriveSteps, SpansEachStepOfEachRank) {
  Timeline timeline = ThreeSteps();
  timeline.steps.clear();
  DeriveSteps(timeline);
  ASSERT_EQ(timeline.steps.size(), 6U);
  EXPECT_EQ(timeline.steps[1].start_ns, 1'000'000'000);
  EXPECT_EQ(timeline.steps[1].end_ns, 2'500'000'000);
  const Timeline before = timeline;
  timeline.spans.clear();
  DeriveSteps(timeline);  // has windows: unchanged
  EXPECT_EQ(timeline.steps.size(), before.steps.size());
}

TEST(Flatten, NamesRunStepAndRankMetrics) {
  Timeline timeline = ThreeSteps();
  timeline.memory = {{.time_ns = 0, .bytes = 512, .rank = 1, .category = Category::kParameters}};
  const auto values = Flatten(ComputeMetrics(timeline, {.tokens_per_step = 100}));
  EXPECT_THAT(values, testing::IsSupersetOf({
                          MetricValue{-1, -1, "step_time_s", 2.0},
                          MetricValue{-1, -1, "tokens_per_s", 50.0},
                          MetricValue{-1, 0, "step_time_s", 1.0},
                          MetricValue{-1, -1, "peak_device_bytes", 512.0},
                          MetricValue{1, -1, "peak_device_parameters_bytes", 512.0},
                      }));
  EXPECT_TRUE(std::none_of(values.begin(), values.end(),
                           [](const MetricValue& value) { return value.name == "mfu"; }));
}

}  // namespace
}  // namespace foretrain
