// Interface to time. Code that needs a clock receives one, so that tests can set it and make it
// jump. Device clocks and their alignment are in profiler/.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace foretrain {

// Times are nanoseconds. All functions are safe from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Nanoseconds since 1970 UTC; may jump forwards and backwards.
  virtual std::int64_t RealtimeNs() = 0;
  // Nanoseconds since an unspecified start; never decreases. About 20 ns a call on a system clock.
  virtual std::int64_t MonotonicNs() = 0;
  // CPU time the calling thread has used.
  virtual std::int64_t ThreadCpuNs() = 0;
  // Returns once MonotonicNs() has reached `monotonic_ns`; at once if it already has.
  virtual void SleepUntil(std::int64_t monotonic_ns) = 0;
};

// The operating system's clocks: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID.
class SystemClock final : public Clock {
 public:
  std::int64_t RealtimeNs() override;
  std::int64_t MonotonicNs() override;
  std::int64_t ThreadCpuNs() override;
  void SleepUntil(std::int64_t monotonic_ns) override;
};

// A clock for tests that moves only by Advance, SetRealtime and SetThreadCpu. A sleeping thread
// wakes when Advance reaches its time, so a thread that never wakes shows a missing Advance.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t monotonic_ns = 0, std::int64_t realtime_ns = 0)
      : monotonic_ns_(monotonic_ns), realtime_ns_(realtime_ns) {}

  std::int64_t RealtimeNs() override;
  std::int64_t MonotonicNs() override;
  std::int64_t ThreadCpuNs() override;  // one value for all threads
  void SleepUntil(std::int64_t monotonic_ns) override;

  // Moves all three clocks forward by `ns` >= 0 and wakes every sleeper whose time has come.
  void Advance(std::int64_t ns);
  // Sets the realtime clock alone, also backwards, as an administrator would.
  void SetRealtime(std::int64_t realtime_ns);
  void SetThreadCpu(std::int64_t thread_cpu_ns);
  // Number of threads in SleepUntil now.
  int sleepers() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable advanced_;
  std::int64_t monotonic_ns_;  // guarded by mutex_, as all below
  std::int64_t realtime_ns_;
  std::int64_t thread_cpu_ns_ = 0;
  int sleepers_ = 0;
};

}  // namespace foretrain
