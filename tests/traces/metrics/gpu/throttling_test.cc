#include "traces/metrics/gpu/throttling.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

Counter Reasons(int rank, std::int64_t second, std::uint64_t bits) {
  return {"gpu_throttle_reasons", rank, -1, second * kSecond, static_cast<double>(bits)};
}
Counter Clock(int rank, std::int64_t second, double hz) {
  return {"gpu_sm_clock_hz", rank, -1, second * kSecond, hz};
}

// Readings at 0, 1, 2 and 3 s of a window of 4 s; the power cap holds at two of them.
TEST(Throttling, IsTheShareOfTimeThatAReasonHolds) {
  const std::vector<Counter> counters = {Reasons(3, 0, 0),   Reasons(3, 1, 0x4), Reasons(3, 2, 0x4),
                                         Reasons(3, 3, 0x1), Clock(3, 0, 2e9),   Clock(3, 1, 1.5e9),
                                         Clock(3, 2, 1.3e9), Clock(3, 3, 1.8e9)};
  const auto throttled = ThrottledRanks(counters, 0, 4 * kSecond);
  ASSERT_EQ(throttled.size(), 1U);
  EXPECT_EQ(throttled[0].rank, 3);
  EXPECT_EQ(throttled[0].reason, ThrottleReason::kPowerCap);
  EXPECT_DOUBLE_EQ(throttled[0].share, 0.5);
  EXPECT_DOUBLE_EQ(*throttled[0].clock_hz, 1.4e9);
  EXPECT_DOUBLE_EQ(*throttled[0].other_clock_hz, 1.9e9);
}

TEST(Throttling, CountsWithinTheWindowAlone) {
  const std::vector<Counter> counters = {Reasons(0, 0, 0x40), Reasons(0, 1, 0), Reasons(0, 2, 0)};
  EXPECT_TRUE(ThrottledRanks(counters, kSecond, 3 * kSecond).empty());
  const auto throttled = ThrottledRanks(counters, kSecond / 2, 3 * kSecond / 2);
  ASSERT_EQ(throttled.size(), 1U);
  EXPECT_EQ(throttled[0].reason, ThrottleReason::kHeat);
  EXPECT_DOUBLE_EQ(throttled[0].share, 0.5);
}

// No readings from 1 s to 9 s: the reading at 1 s holds for 2 s, not 8.
TEST(Throttling, LetsAReadingStandForTwoSecondsAtMost) {
  const std::vector<Counter> counters = {Reasons(0, 0, 0), Reasons(0, 1, 0x4), Reasons(0, 9, 0)};
  const auto throttled = ThrottledRanks(counters, 0, 10 * kSecond);
  ASSERT_EQ(throttled.size(), 1U);
  EXPECT_DOUBLE_EQ(throttled[0].share, 2.0 / 4.0);
}

TEST(Throttling, NamesAHardwareSlowdownByWhatCausesIt) {
  EXPECT_TRUE(HasReason(0x8, ThrottleReason::kHardware));
  EXPECT_FALSE(HasReason(0x48, ThrottleReason::kHardware));
  EXPECT_TRUE(HasReason(0x48, ThrottleReason::kHeat));
  EXPECT_FALSE(HasReason(0x88, ThrottleReason::kHardware));
  EXPECT_TRUE(HasReason(0x88, ThrottleReason::kPowerBrake));
  // Idle, user-set clocks and a display's clocks are not throttling.
  for (int i = 0; i < kThrottleReasonCount; ++i) {
    EXPECT_FALSE(HasReason(0x1 | 0x2 | 0x100, static_cast<ThrottleReason>(i)));
  }
}

TEST(Throttling, OfARunWithoutReadingsIsNone) {
  const std::vector<Counter> counters = {Clock(0, 1, 2e9), {"loss", -1, 0, 0, 3.0}};
  EXPECT_TRUE(ThrottledRanks(counters, 0, 10 * kSecond).empty());
}

}  // namespace
}  // namespace foretrain
