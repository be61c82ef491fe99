#include "base/clock.h"

#include <time.h>

#include <cerrno>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr std::int64_t kNsInSecond = 1'000'000'000;

std::int64_t Read(clockid_t id) {
  timespec now{};
  FT_CHECK(clock_gettime(id, &now) == 0);
  return std::int64_t{now.tv_sec} * kNsInSecond + now.tv_nsec;
}

}  // namespace

// CLOCK_REALTIME may jump, so durations are measured by the monotonic clock.
std::int64_t SystemClock::RealtimeNs() { return Read(CLOCK_REALTIME); }
std::int64_t SystemClock::MonotonicNs() { return Read(CLOCK_MONOTONIC); }
std::int64_t SystemClock::ThreadCpuNs() { return Read(CLOCK_THREAD_CPUTIME_ID); }

// An absolute deadline, so that a signal (EINTR) restarts the sleep without lengthening it.
void SystemClock::SleepUntil(std::int64_t monotonic_ns) {
  if (monotonic_ns <= 0) return;
  const timespec until{monotonic_ns / kNsInSecond, monotonic_ns % kNsInSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

std::int64_t ManualClock::RealtimeNs() {
  const std::lock_guard lock(mutex_);
  return realtime_ns_;
}

std::int64_t ManualClock::MonotonicNs() {
  const std::lock_guard lock(mutex_);
  return monotonic_ns_;
}

std::int64_t ManualClock::ThreadCpuNs() {
  const std::lock_guard lock(mutex_);
  return thread_cpu_ns_;
}

// sleepers_ lets a test wait until a thread sleeps before it calls Advance, so that no wake-up is
// lost.
void ManualClock::SleepUntil(std::int64_t monotonic_ns) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  advanced_.wait(lock, [&] { return monotonic_ns_ >= monotonic_ns; });
  --sleepers_;
}

// The three clocks move together under one lock, so no reader sees a mixture of old and new times.
void ManualClock::Advance(std::int64_t ns) {
  FT_CHECK(ns >= 0);
  const std::lock_guard lock(mutex_);
  monotonic_ns_ += ns;
  realtime_ns_ += ns;
  thread_cpu_ns_ += ns;
  advanced_.notify_all();
}

void ManualClock::SetRealtime(std::int64_t realtime_ns) {
  const std::lock_guard lock(mutex_);
  realtime_ns_ = realtime_ns;
}

void ManualClock::SetThreadCpu(std::int64_t thread_cpu_ns) {
  const std::lock_guard lock(mutex_);
  thread_cpu_ns_ = thread_cpu_ns;
}

// Counts threads inside SleepUntil, including those that are about to wake.
int ManualClock::sleepers() const {
  const std::lock_guard lock(mutex_);
  return sleepers_;
}

}  // namespace foretrain
