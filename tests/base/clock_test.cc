#include "base/clock.h"

#include <thread>

#include <gtest/gtest.h>

namespace foretrain {
namespace {

TEST(SystemClock, GoesForwardAndSleepsUntilItsTime) {
  SystemClock clock;
  const std::int64_t until = clock.MonotonicNs() + 2'000'000;
  clock.SleepUntil(until);
  EXPECT_GE(clock.MonotonicNs(), until);
  clock.SleepUntil(0);
  clock.SleepUntil(-5);
  EXPECT_GT(clock.RealtimeNs(), 1'600'000'000'000'000'000);  // after September 2020
}

TEST(SystemClock, CountsTheCpuTimeOfItsThread) {
  SystemClock clock;
  const std::int64_t before = clock.ThreadCpuNs();
  volatile double sum = 0;
  for (int i = 0; i < 100'000; ++i) sum = sum + i;
  EXPECT_GT(clock.ThreadCpuNs(), before);
}

TEST(ManualClock, StandsStillUntilAdvanced) {
  ManualClock clock(5, 1000);
  EXPECT_EQ(clock.MonotonicNs(), 5);
  EXPECT_EQ(clock.RealtimeNs(), 1000);
  clock.Advance(7);
  EXPECT_EQ(clock.MonotonicNs(), 12);
  EXPECT_EQ(clock.RealtimeNs(), 1007);
  EXPECT_EQ(clock.ThreadCpuNs(), 7);
  clock.SetRealtime(1);
  clock.SetThreadCpu(3);
  EXPECT_EQ(clock.RealtimeNs(), 1);
  EXPECT_EQ(clock.ThreadCpuNs(), 3);
  EXPECT_EQ(clock.MonotonicNs(), 12);
}

TEST(ManualClock, WakesSleepersAtTheirTime) {
  ManualClock clock;
  std::int64_t woke_ns = 0;
  std::thread sleeper([&] {
    clock.SleepUntil(100);
    woke_ns = clock.MonotonicNs();
  });
  while (clock.sleepers() == 0) std::this_thread::yield();
  clock.Advance(99);
  EXPECT_EQ(clock.sleepers(), 1);
  clock.Advance(1);
  sleeper.join();
  EXPECT_EQ(woke_ns, 100);
}

}  // namespace
}  // namespace foretrain
