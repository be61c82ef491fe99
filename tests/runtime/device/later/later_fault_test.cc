// Failing calls, work that breaks the device, and work that does not end, on an asynchronous
// device: the run ends in time, says where, and releases everything.
#include "tests/runtime/device/later/later_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/runtime/device/later/later_device.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

TEST(LaterFault, CallsThatFailEndTheRunAndLeaveNothing) { FailCallsInTurn(130); }

TEST(LaterFault, WorkThatBreaksTheDeviceIsNamed) {
  Later().Reset();
  RealClock clock;
  ASSERT_FALSE(TrainLater(kLaterSteps, clock, 60 * kSecond).error.has_value());
  const std::int64_t works = Later().works;
  for (std::int64_t breaking = works / 3; breaking < works; breaking += works / 10) {
    Later().Reset();
    Later().break_at = breaking;
    const Ended ended = TrainLater(kLaterSteps, clock, 60 * kSecond);
    ASSERT_TRUE(ended.error.has_value()) << breaking;
    EXPECT_EQ(ended.error->code, ErrorCode::kIo);
    EXPECT_THAT(ended.error->message, AllOf(ContainsRegex("^rank [01], step [01], [a-z]"),
                                            HasSubstr("an illegal memory access")));
    EXPECT_EQ(Later().Live(), 0);
  }
}

TEST(LaterFault, WorkThatDoesNotEndIsATimeOutAndKeepsItsMemory) {
  Later().Reset();
  static RealClock clock;  // outlives the threads left behind
  ASSERT_FALSE(TrainLater(kLaterSteps, clock, 60 * kSecond).error.has_value());
  const std::int64_t kernels = Later().kernels;
  Later().Reset();
  Later().hang_at = kernels / 2;
  const Ended ended = TrainLater(kLaterSteps, clock, kSecond / 5);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->code, ErrorCode::kTimeout);
  EXPECT_THAT(ended.error->message, ContainsRegex("rank [01], step [01], "));
  EXPECT_LT(ended.seconds, 3.0);
  EXPECT_GT(Later().allocations, 0);  // the device may still write there
  Later().released = true;
  for (int i = 0; i < 5000 && Later().Live() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Later().Live(), 0);
}

// The host's thread waits for this copy itself; no op of a watched queue covers it.
TEST(LaterFault, ReadsThatDoNotEndAreATimeOutAndKeepTheirMemory) {
  Later().Reset();
  static RealClock clock;  // outlives the threads left behind
  Later().hang_reads = true;
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = TrainLater(kLaterSteps, clock, kSecond / 5);
  // TrainLater has destroyed the executor as well.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->code, ErrorCode::kTimeout);
  EXPECT_THAT(ended.error->message, ContainsRegex("rank [01], step [01], "));
  EXPECT_GT(Later().pinned, 0);  // the copy may still write there
  Later().released = true;
  for (int i = 0; i < 5000 && Later().Live() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Later().Live(), 0);
}

}  // namespace
}  // namespace foretrain
