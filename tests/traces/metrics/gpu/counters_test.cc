#include "traces/metrics/gpu/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;

Counter Activity(int rank, std::int64_t tenth, double value) {
  return {"gpu_sm_activity", rank, -1, tenth * kSecond / 10, value};
}

TEST(GpuCounters, AreGroupedByRankAndSeriesInOrderOfTime) {
  const std::vector<GpuCounter> counters =
      GpuCountersOf(std::vector<Counter>{{"loss", -1, 0, 0, 3.0},
                                         Activity(1, 2, 0.5),
                                         Activity(1, 0, 0.25),
                                         {"gpu_power_w", 0, -1, 5, 650.0},
                                         Activity(0, 0, 0.75),
                                         Activity(1, 4, std::nan("")),
                                         {"gpu_xid", 0, -1, 5, 79.0}});
  ASSERT_EQ(counters.size(), 3U);
  EXPECT_EQ(counters[0].rank, 0);
  EXPECT_EQ(counters[0].series.title, "SM active");
  EXPECT_EQ(counters[1].rank, 0);
  EXPECT_EQ(counters[1].series.title, "power");
  EXPECT_EQ(counters[2].rank, 1);
  EXPECT_EQ(counters[2].highest, 0.5);
  ASSERT_EQ(counters[2].readings.size(), 2U);
  EXPECT_EQ(counters[2].readings[0].time_ns, 0);
  EXPECT_EQ(counters[2].readings[1].value, 0.5);
}

// 0.2 holds in [0, 0.2) s and 0.6 in [0.2, 0.6) s. In [0.1, 0.4) s: (0.1 * 0.2 + 0.2 * 0.6) / 0.3.
TEST(GpuCounters, MeanWeighsReadingsByTheirTimeInTheWindow) {
  const std::vector<GpuCounter> counters = GpuCountersOf(
      std::vector<Counter>{Activity(0, 0, 0.2), Activity(0, 2, 0.6), Activity(0, 6, 0.0)});
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_NEAR(counters[0].Mean(kSecond / 10, 4 * kSecond / 10).value(), 0.14 / 0.3, 1e-12);
  EXPECT_FALSE(counters[0].Mean(-kSecond, 0).has_value());
  EXPECT_FALSE(counters[0].Mean(kSecond, kSecond).has_value());
  // The window lies inside one reading.
  EXPECT_DOUBLE_EQ(counters[0].Mean(kSecond / 20, kSecond / 10).value(), 0.2);
}

// After 2 s without another, a reading no longer holds: [1, 2) s is covered, [2, 4) s is not.
TEST(GpuCounters, ReadingHoldsForTwoSecondsAtMost) {
  const std::vector<GpuCounter> counters =
      GpuCountersOf(std::vector<Counter>{Activity(0, 0, 0.5), Activity(0, 100, 0.9)});
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0].EndOf(0), 2 * kSecond);
  EXPECT_EQ(counters[0].EndOf(1), 12 * kSecond);  // as long as the one before, but at most 2 s
  const std::vector<GpuCounter> close =
      GpuCountersOf(std::vector<Counter>{Activity(0, 0, 0.5), Activity(0, 2, 0.9)});
  EXPECT_EQ(close[0].EndOf(1), 4 * kSecond / 10);
  EXPECT_DOUBLE_EQ(counters[0].Mean(kSecond, 4 * kSecond).value(), 0.5);
  EXPECT_FALSE(counters[0].Mean(3 * kSecond, 9 * kSecond).has_value());
  EXPECT_EQ(counters[0].At(1.9e9), 0U);
  EXPECT_FALSE(counters[0].At(2e9).has_value());
  EXPECT_FALSE(counters[0].At(-1).has_value());
  EXPECT_EQ(counters[0].At(10e9), 1U);
}

// Each rank has a window of its own for the step.
TEST(GpuCounters, MeansOfAStepUseEachRanksWindow) {
  const std::vector<GpuCounter> counters = GpuCountersOf(std::vector<Counter>{
      Activity(0, 0, 0.2), Activity(0, 10, 0.8), Activity(1, 0, 0.4), Activity(2, 0, 0.3)});
  const std::vector<StepWindow> windows = {
      {.start_ns = 0, .end_ns = kSecond, .step = 6, .rank = 0},
      {.start_ns = kSecond, .end_ns = 2 * kSecond, .step = 7, .rank = 0},
      {.start_ns = 3 * kSecond, .end_ns = 4 * kSecond, .step = 7, .rank = 1}};
  const std::vector<GpuMean> means = GpuMeansOf(counters, windows, 7);
  // Rank 1 has no reading in its window and rank 2 has no window.
  ASSERT_EQ(means.size(), 1U);
  EXPECT_EQ(means[0].rank, 0);
  EXPECT_EQ(means[0].series.name, "gpu_sm_activity");
  EXPECT_DOUBLE_EQ(means[0].mean, 0.8);
  EXPECT_THAT(GpuMeansOf(counters, windows, 9), IsEmpty());
}

// Bits of NVML: 0x4 power cap, 0x1 idle, 0x20 heat.
TEST(GpuCounters, TellWhenAGpuIsThrottled) {
  const std::vector<GpuCounter> counters =
      GpuCountersOf(std::vector<Counter>{{"gpu_throttle_reasons", 2, -1, 0, 0x4},
                                         {"gpu_throttle_reasons", 2, -1, 10, 0x1},
                                         {"gpu_throttle_reasons", 2, -1, 20, 0x21},
                                         {"gpu_throttle_reasons", 2, -1, 30, -1.0}});
  ASSERT_EQ(counters.size(), 1U);
  EXPECT_EQ(counters[0].series.title, "throttled");
  std::vector<double> values;
  for (const GpuReading& reading : counters[0].readings) values.push_back(reading.value);
  EXPECT_EQ(values, (std::vector<double>{1, 0, 1, 0}));
}

TEST(GpuCounters, HaveUnits) {
  EXPECT_EQ(FormatReading(GpuUnit::kShare, 0.831), "83.1 %");
  EXPECT_EQ(FormatReading(GpuUnit::kBytesPerSecond, 4.12e11), "412 GB/s");
  EXPECT_EQ(FormatReading(GpuUnit::kHertz, 1.98e9), "1.98 GHz");
  EXPECT_EQ(FormatReading(GpuUnit::kWatt, 699.5), "700 W");
  EXPECT_EQ(FormatReading(GpuUnit::kCelsius, 71), "71.0 C");
  std::set<std::string_view> names;
  for (const GpuSeries& series : AllGpuSeries()) names.insert(series.name);
  EXPECT_EQ(names.size(), AllGpuSeries().size());
}

}  // namespace
}  // namespace foretrain
