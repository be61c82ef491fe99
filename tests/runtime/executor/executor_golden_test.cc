// Pipelines of opaque ops on a virtual clock: the executor takes exactly the published times and
// holds exactly the published number of activations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "runtime/executor/executor.h"
#include "sim/config/schedule/placement.h"
#include "tests/golden_schedules.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/support/opaque.h"

namespace foretrain {
namespace {

constexpr SlotTimes kUnit{1, 1, 1};
constexpr std::int64_t kSecond = 1'000'000'000;

Timeline Execute(ScheduleKind schedule, const PipelineShape& shape, const SlotTimes& times,
                 bool early, int steps = 1) {
  VirtualClock clock;
  ExecutorOptions options;
  options.timeout_ns = 3600 * kSecond;
  auto executor =
      Executor::Make(std::make_shared<const Program>(OpaquePipeline(schedule, shape, times, early)),
                     MockDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  RecordingSink sink;
  CountingBatches batches;
  auto summary = (*executor)->Run(steps, batches, sink);
  EXPECT_TRUE(summary.has_value()) << summary.error().message;
  SortTimeline(sink.timeline);
  return std::move(sink.timeline);
}

std::int64_t EndOf(const Timeline& timeline) {
  std::int64_t end_ns = 0;
  for (const Span& span : timeline.spans) end_ns = std::max(end_ns, span.end_ns);
  return end_ns;
}

std::vector<std::int64_t> PeakUnits(const Timeline& timeline, int p) {
  std::vector<std::int64_t> peaks(static_cast<std::size_t>(p));
  for (const MemorySample& sample : timeline.memory) {
    if (sample.category != Category::kActivations) continue;
    auto& peak = peaks[static_cast<std::size_t>(sample.rank)];
    peak = std::max(peak, sample.bytes / kOpaqueUnitBytes);
  }
  return peaks;
}

std::int64_t NsOf(double seconds) { return std::llround(seconds * 1e9); }

TEST(ExecutorGolden, TakesThePublishedTimes) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    const Timeline timeline = Execute(golden.schedule, golden.shape, times, false);
    EXPECT_EQ(EndOf(timeline), NsOf(golden.makespan_s)) << NameOf(golden);
    const int share = Placement(golden.schedule, golden.shape.p, golden.shape.vpp).ChunksOfShare();
    std::vector<double> peaks;
    for (const std::int64_t units : PeakUnits(timeline, golden.shape.p)) {
      peaks.push_back(static_cast<double>(units) / share);
    }
    EXPECT_EQ(peaks, golden.peaks) << NameOf(golden);
  }
}

TEST(ExecutorGolden, SendsInputGradientsEarly) {
  for (const GoldenSchedule& golden : GoldenSchedules()) {
    if (golden.early_s == 0) continue;
    const SlotTimes times{1, golden.input_s, golden.weight_s};
    EXPECT_EQ(EndOf(Execute(golden.schedule, golden.shape, times, true)), NsOf(golden.early_s))
        << NameOf(golden);
  }
}

// The closed form, with unequal times in whole milliseconds so that sums are exact.
TEST(ExecutorGolden, AgreesWithTheClosedFormForUnequalTimes) {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> ms(300, 2000);
  constexpr std::array kSchedules = {ScheduleKind::kGpipe, ScheduleKind::k1f1b,
                                     ScheduleKind::kZbH1};
  for (int i = 0; i < 40; ++i) {
    const ScheduleKind schedule = kSchedules[static_cast<std::size_t>(i % 3)];
    const int p = 1 + static_cast<int>(random() % 6);
    const int m = 1 + static_cast<int>(random() % 14);
    const SlotTimes t{ms(random) * 1e-3, ms(random) * 1e-3, ms(random) * 1e-3};
    const double expected = Makespan(schedule, {p, m}, {t.forward_s, t.input_s, t.weight_s, 0});
    EXPECT_EQ(EndOf(Execute(schedule, {p, m}, t, false)), NsOf(expected))
        << Name(schedule) << " p " << p << " m " << m;
  }
}

// F = I = W = 1, p = 4, m = 8. One step fills and drains the pipeline as 1F1B does: (8 + 4 - 1) *
// 3. Each further step adds rank 0's 8 * 3 and nothing else.
TEST(ExecutorGolden, NeverDrainsBetweenStepsThatOverlap) {
  for (int steps = 1; steps <= 4; ++steps) {
    const Timeline timeline = Execute(ScheduleKind::kPipeDream, {4, 8}, kUnit, false, steps);
    EXPECT_EQ(EndOf(timeline), (33 + 24 * (steps - 1)) * kSecond);
    const Program program = OpaquePipeline(ScheduleKind::kPipeDream, {4, 8}, kUnit, false);
    // Each step runs once, and none after the last.
    std::map<std::pair<int, int>, std::int64_t> spans;
    for (const Span& span : timeline.spans) ++spans[{span.rank, span.step}];
    EXPECT_EQ(spans.size(), 4U * static_cast<std::size_t>(steps));
    for (const auto& [key, count] : spans) {
      EXPECT_EQ(count, program.ranks[static_cast<std::size_t>(key.first)].op_count);
      EXPECT_LT(key.second, steps);
    }
    EXPECT_EQ(timeline.steps.size(), 4U * static_cast<std::size_t>(steps));
  }
}

// Only queue order connects the steps of this program: each rank starts the next step as soon as it
// is done, so rank 0 idles only at the start and end of the run.
TEST(ExecutorGolden, RunsConsecutiveStepsInTheSameOrderEachTime) {
  const Timeline first = Execute(ScheduleKind::k1f1b, {4, 8}, kUnit, false, 5);
  const Timeline second = Execute(ScheduleKind::k1f1b, {4, 8}, kUnit, false, 5);
  ASSERT_EQ(first.spans.size(), second.spans.size());
  for (std::size_t i = 0; i < first.spans.size(); ++i) {
    EXPECT_EQ(first.spans[i].start_ns, second.spans[i].start_ns);
    EXPECT_EQ(first.spans[i].op, second.spans[i].op);
  }
  // Each rank's five windows are contiguous.
  std::map<int, std::int64_t> ends;
  for (const StepWindow& window : first.steps) {
    EXPECT_EQ(window.start_ns, ends[window.rank]);
    ends[window.rank] = window.end_ns;
  }
  EXPECT_EQ(first.steps.size(), 20U);
}

}  // namespace
}  // namespace foretrain
