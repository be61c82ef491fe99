#include "base/abort_token.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::HasSubstr;

std::string Never() { return "nothing came"; }

TEST(AbortToken, KeepsTheFirstError) {
  AbortToken token;
  EXPECT_FALSE(token.aborted());
  EXPECT_TRUE(token.Check().has_value());
  EXPECT_TRUE(token.Abort({ErrorCode::kIo, "rank 3: disk gone"}));
  EXPECT_FALSE(token.Abort({ErrorCode::kTimeout, "rank 1: waited"}));
  EXPECT_TRUE(token.aborted());
  EXPECT_EQ(token.first_error()->code, ErrorCode::kIo);
  const auto check = token.Check();
  ASSERT_FALSE(check.has_value());
  EXPECT_EQ(check.error().code, ErrorCode::kAborted);
  EXPECT_THAT(check.error().message, HasSubstr("rank 3: disk gone"));
}

TEST(AbortToken, WaitReturnsWhenReady) {
  AbortToken token;
  std::mutex mutex;
  std::condition_variable_any condition;
  bool done = false;
  std::thread other([&] {
    const std::lock_guard lock(mutex);
    done = true;
    condition.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(token
                  .Wait(
                      condition, lock, DeadlineIn(60), [&] { return done; }, Never)
                  .has_value());
  EXPECT_TRUE(lock.owns_lock());
  lock.unlock();
  other.join();
}

TEST(AbortToken, WaitTimesOutWithItsDescription) {
  AbortToken token;
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  const auto waited = token.Wait(
      condition, lock, DeadlineIn(0.01), [] { return false; },
      [] { return std::string("rank 3 did not arrive"); });
  ASSERT_FALSE(waited.has_value());
  EXPECT_EQ(waited.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(waited.error().message, "rank 3 did not arrive");
}

TEST(AbortToken, WhatIsReadyWinsOverAnAbort) {
  AbortToken token;
  token.Abort({ErrorCode::kIo, "x"});
  std::mutex mutex;
  std::condition_variable_any condition;
  std::unique_lock lock(mutex);
  EXPECT_TRUE(token
                  .Wait(
                      condition, lock, DeadlineIn(0), [] { return true; }, Never)
                  .has_value());
}

// Each thread waits on its own condition, as ranks in different slots do.
TEST(AbortToken, WakesEveryWaiterWhereverItWaits) {
  constexpr int kThreads = 16;
  struct Slot {
    std::mutex mutex;
    std::condition_variable_any condition;
    bool waiting = false;
    ErrorCode code = ErrorCode::kIo;
  };
  std::vector<Slot> slots(kThreads);
  AbortToken token;
  std::vector<std::thread> threads;
  for (Slot& slot : slots) {
    threads.emplace_back([&slot, &token] {
      std::unique_lock lock(slot.mutex);
      slot.waiting = true;
      const auto waited = token.Wait(
          slot.condition, lock, DeadlineIn(60), [] { return false; }, Never);
      if (!waited.has_value()) slot.code = waited.error().code;
    });
  }
  for (Slot& slot : slots) {
    for (bool waiting = false; !waiting;) {
      const std::lock_guard lock(slot.mutex);
      waiting = slot.waiting;
    }
  }
  token.Abort({ErrorCode::kIo, "rank 0: gone"});
  for (std::thread& thread : threads) thread.join();
  for (const Slot& slot : slots) EXPECT_EQ(slot.code, ErrorCode::kAborted);
}

TEST(AbortToken, OneOfManyAbortersIsFirst) {
  AbortToken token;
  std::atomic<int> firsts{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&token, &firsts, i] {
      if (token.Abort({ErrorCode::kIo, std::to_string(i)})) ++firsts;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(firsts, 1);
}

TEST(DeadlineIn, TakesAnyNumberOfSeconds) {
  EXPECT_GT(DeadlineIn(1e300), std::chrono::steady_clock::now() + std::chrono::hours(24));
  const Deadline now = DeadlineIn(0);
  EXPECT_LE(now, std::chrono::steady_clock::now());
}

}  // namespace
}  // namespace foretrain
