#include "runtime/device/core_wait.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace foretrain {
namespace {

// Four threads that share one core: each waits for three quarters of the time.
TEST(CoreWait, IsThatOfThreadsThatShareACore) {
  CoreWait wait;
  if (access("/proc/self/schedstat", R_OK) != 0) {
    GTEST_SKIP() << "the kernel does not count waits; runs where it has CONFIG_SCHED_INFO";
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&stop] {
      cpu_set_t allowed, core;
      sched_getaffinity(0, sizeof allowed, &allowed);
      int first = 0;
      while (!CPU_ISSET(first, &allowed)) ++first;
      CPU_ZERO(&core);
      CPU_SET(first, &core);
      sched_setaffinity(0, sizeof core, &core);
      while (!stop) {
      }
    });
  }
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto waited_ns = wait.SinceLast();
  const std::chrono::nanoseconds all = std::chrono::steady_clock::now() - start;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(waited_ns.has_value());
  EXPECT_GT(*waited_ns, all.count());
  EXPECT_LT(*waited_ns, 5 * all.count());
}

TEST(CoreWait, CountsFromTheLastCall) {
  CoreWait wait;
  const auto first = wait.SinceLast();
  const auto second = wait.SinceLast();
  EXPECT_EQ(first.has_value(), second.has_value());
  if (second) {
    EXPECT_GE(*second, 0);
    EXPECT_LT(*second, 1'000'000'000);
  }
}

}  // namespace
}  // namespace foretrain
