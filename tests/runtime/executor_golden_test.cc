// Pipelines of opaque ops on a virtual clock: the executor takes exactly the published times and
// holds exactly the published number of activations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "mock_device.h"
#include "recording_sink.h"
#include "runtime/executor.h"
#include "sim/program/opaque.h"
#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

constexpr SlotTimes kUnit{1, 1, 1};
constexpr std::int64_t kSecond = 1'000'000'000;

Timeline Execute(ScheduleKind schedule, int p, int m, const SlotTimes& times, bool early,
                 int steps = 1) {
  VirtualClock clock;
  ExecutorOptions options;
  options.timeout_ns = 3600 * kSecond;
  auto executor = Executor::Make(
      std::make_shared<const Program>(OpaquePipeline(schedule, {p, m}, times, early)),
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

// p = 4, m = 8, F = I = W = 1. GPipe and 1F1B: (m + p - 1)(F + I + W) = 33. ZB-H1: m (F + I + W) +
// (p - 1)(F + I - W) = 27. With the input gradient sent early each of the p - 1 hops saves W: 30.
TEST(ExecutorGolden, TakesThePublishedTimes) {
  EXPECT_EQ(EndOf(Execute(ScheduleKind::kGpipe, 4, 8, kUnit, false)), 33 * kSecond);
  EXPECT_EQ(EndOf(Execute(ScheduleKind::k1f1b, 4, 8, kUnit, false)), 33 * kSecond);
  EXPECT_EQ(EndOf(Execute(ScheduleKind::kZbH1, 4, 8, kUnit, false)), 27 * kSecond);
  EXPECT_EQ(EndOf(Execute(ScheduleKind::kGpipe, 4, 8, kUnit, true)), 30 * kSecond);
  EXPECT_EQ(EndOf(Execute(ScheduleKind::k1f1b, 4, 8, kUnit, true)), 30 * kSecond);
  // p = 8, m = 32: 39 * 3 = 117 and 96 + 7 = 103.
  EXPECT_EQ(EndOf(Execute(ScheduleKind::k1f1b, 8, 32, kUnit, false)), 117 * kSecond);
  EXPECT_EQ(EndOf(Execute(ScheduleKind::kZbH1, 8, 32, kUnit, false)), 103 * kSecond);
}

// The closed form, for unequal times in whole milliseconds so that sums are exact.
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
    EXPECT_EQ(EndOf(Execute(schedule, p, m, t, false)), std::llround(expected * 1e9))
        << Name(schedule) << " p " << p << " m " << m;
  }
}

// 1F1B: rank r holds p - r; GPipe: m; ZB-H1: p everywhere (Qi et al. 2023).
TEST(ExecutorGolden, HoldsThePublishedNumberOfActivations) {
  using testing::Each;
  using testing::ElementsAre;
  const auto peaks = [](ScheduleKind schedule, int p, int m) {
    return PeakUnits(Execute(schedule, p, m, kUnit, false), p);
  };
  EXPECT_THAT(peaks(ScheduleKind::k1f1b, 4, 8), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(peaks(ScheduleKind::kGpipe, 4, 8), Each(8));
  EXPECT_THAT(peaks(ScheduleKind::kZbH1, 4, 8), Each(4));
}

// Nothing joins the steps of this program but the order of its queues: each rank goes on with the
// next step as soon as it is done, so that rank 0 idles at the start and the end of the run alone.
TEST(ExecutorGolden, RunsConsecutiveStepsInTheSameOrderEachTime) {
  const Timeline first = Execute(ScheduleKind::k1f1b, 4, 8, kUnit, false, 5);
  const Timeline second = Execute(ScheduleKind::k1f1b, 4, 8, kUnit, false, 5);
  ASSERT_EQ(first.spans.size(), second.spans.size());
  for (std::size_t i = 0; i < first.spans.size(); ++i) {
    EXPECT_EQ(first.spans[i].start_ns, second.spans[i].start_ns);
    EXPECT_EQ(first.spans[i].op, second.spans[i].op);
  }
  // Each rank's five windows lie end to end.
  std::map<int, std::int64_t> ends;
  for (const StepWindow& window : first.steps) {
    EXPECT_EQ(window.start_ns, ends[window.rank]);
    ends[window.rank] = window.end_ns;
  }
  EXPECT_EQ(first.steps.size(), 20U);
}

}  // namespace
}  // namespace foretrain
