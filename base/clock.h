// The seam to time: code that needs a clock is handed one, so that tests can set and break it.
// Leaves out device clocks and their alignment (profiler/).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace foretrain {

// Times are nanoseconds. All functions are safe from any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Since 1970 UTC; may jump, back too.
  virtual std::int64_t RealtimeNs() = 0;
  // Since an unspecified start; never goes back. About 20 ns a call on a system clock.
  virtual std::int64_t MonotonicNs() = 0;
  // CPU time the calling thread has used.
  virtual std::int64_t ThreadCpuNs() = 0;
  // Returns when MonotonicNs() has reached `monotonic_ns`; at once when it has already.
  virtual void SleepUntil(std::int64_t monotonic_ns) = 0;
};

// The operating system's: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID.
class SystemClock final : public Clock {
 public:
  std::int64_t RealtimeNs() override;
  std::int64_t MonotonicNs() override;
  std::int64_t ThreadCpuNs() override;
  void SleepUntil(std::int64_t monotonic_ns) override;
};

// Stands still but for Advance, SetRealtime and SetThreadCpu. Sleepers wake when it reaches their
// time, so a thread that sleeps for ever means that no one advances it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(std::int64_t monotonic_ns = 0, std::int64_t realtime_ns = 0)
      : monotonic_ns_(monotonic_ns), realtime_ns_(realtime_ns) {}

  std::int64_t RealtimeNs() override;
  std::int64_t MonotonicNs() override;
  std::int64_t ThreadCpuNs() override;  // one figure for all threads
  void SleepUntil(std::int64_t monotonic_ns) override;

  // Moves all three on by `ns` >= 0 and wakes who has slept long enough.
  void Advance(std::int64_t ns);
  // Moves the realtime clock alone, also back, as an administrator would.
  void SetRealtime(std::int64_t realtime_ns);
  void SetThreadCpu(std::int64_t thread_cpu_ns);
  // Threads in SleepUntil now.
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
