#include "profiler/clock_fit.h"

#include <gtest/gtest.h>

#include <vector>

namespace foretrain {
namespace {

TEST(ClockFit, WithoutSamplesTheClocksAreOne) { EXPECT_EQ(FitClock({}).ToHost(12'345), 12'345); }

TEST(ClockFit, OneSampleGivesTheOffsetAndHalfItsWidthAsError) {
  const std::vector<ClockSample> samples = {
      {.host_ns = 1'000, .device_ns = 500'000, .width_ns = 40}};
  const ClockFit fit = FitClock(samples);
  EXPECT_EQ(fit.ToHost(500'100), 1'100);
  EXPECT_EQ(fit.rate, 1.0);
  EXPECT_EQ(fit.error_ns, 20);
}

// A device 100 parts in a million fast, with an offset of 10^18: after 10 s of the host its clock
// has advanced by 10.001 s.
TEST(ClockFit, FindsOffsetAndDrift) {
  constexpr std::int64_t kOffset = 1'000'000'000'000'000'000;
  std::vector<ClockSample> samples;
  for (std::int64_t second = 0; second <= 10; ++second) {
    samples.push_back({second * 1'000'000'000, kOffset + second * 1'000'100'000, 50});
  }
  const ClockFit fit = FitClock(samples);
  EXPECT_NEAR(fit.rate, 1 / 1.0001, 1e-12);
  // 4.5 s, between two samples.
  EXPECT_NEAR(static_cast<double>(fit.ToHost(kOffset + 4'500'450'000)), 4.5e9, 2);
  EXPECT_LE(fit.error_ns, 27);
}

TEST(ClockFit, LeavesInterruptedReadingsOut) {
  std::vector<ClockSample> samples;
  for (std::int64_t i = 0; i < 5; ++i)
    samples.push_back({i * 100'000'000, i * 100'000'000 + 7, 30});
  samples.push_back({600'000'000, 600'090'000, 200'000});  // read across a pause of 0.2 ms
  const ClockFit fit = FitClock(samples);
  EXPECT_EQ(fit.ToHost(1'000'000'007), 1'000'000'000);
  EXPECT_LE(fit.error_ns, 16);
}

TEST(ClockFit, TellsNoDriftFromSamplesThatLieClose) {
  // 1 ms apart and 100 ns off: a line through both would have a slope error of 10^-4.
  const std::vector<ClockSample> samples = {{0, 0, 200}, {1'000'000, 1'000'100, 200}};
  const ClockFit fit = FitClock(samples);
  EXPECT_EQ(fit.rate, 1.0);
  // Each sample is 50 ns off the mean offset, and half of its width of 200 ns is added.
  EXPECT_EQ(fit.error_ns, 150);
}

// A clock that jumps during a run does not fit a line: the error shows by how much.
TEST(ClockFit, ShowsAClockThatJumped) {
  std::vector<ClockSample> samples;
  for (std::int64_t i = 0; i < 10; ++i) {
    samples.push_back({i * 100'000'000, i * 100'000'000 + (i < 5 ? 0 : 5'000'000), 30});
  }
  EXPECT_GT(FitClock(samples).error_ns, 500'000);
}

}  // namespace
}  // namespace foretrain
