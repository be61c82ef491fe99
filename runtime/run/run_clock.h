// Time and waiting of a run behind one interface: a real clock, and a virtual one on which tests
// execute schedules exactly. Every thread of a run waits only through its RunClock. Conditions:
// runtime/run/gate.h.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

namespace foretrain {

// A deadline that never comes. Only for threads that another thread is sure to wake.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

struct VirtualWaiter;

// A point at which threads wait for a change made under the same mutex.
class WaitPoint {
 public:
  WaitPoint() = default;
  WaitPoint(const WaitPoint&) = delete;
  WaitPoint& operator=(const WaitPoint&) = delete;

 private:
  friend class RealClock;
  friend class VirtualClock;
  std::condition_variable condition_;
  std::vector<VirtualWaiter*> virtual_waiters_;  // guarded by the virtual clock's mutex
};

class RunClock {
 public:
  virtual ~RunClock() = default;

  // Nanoseconds since the clock was made; never goes back.
  virtual std::int64_t Now() const = 0;

  // Releases `lock`, sleeps until Notify(point) or `deadline_ns` on this clock, and takes the lock
  // again. False if the deadline passed. May return early: the caller tests its condition in a
  // loop. The thread must be counted by AddThread.
  virtual bool Wait(std::unique_lock<std::mutex>& lock, WaitPoint& point,
                    std::int64_t deadline_ns) = 0;

  // Wakes all threads that wait at `point`. Their condition was changed under their mutex before.
  virtual void Notify(WaitPoint& point) = 0;

  // Counts the threads whose work moves time. A thread is counted by its maker before it starts.
  // The maker counts itself while it creates several. A thread uncounts itself as its last act.
  virtual void AddThread() {}
  virtual void RemoveThread() {}

  // True if time passes only by waiting: spinning would stop it.
  virtual bool IsVirtual() const { return false; }
};

class RealClock : public RunClock {
 public:
  RealClock() : origin_(std::chrono::steady_clock::now()) {}
  std::int64_t Now() const override;
  bool Wait(std::unique_lock<std::mutex>& lock, WaitPoint& point,
            std::int64_t deadline_ns) override;
  void Notify(WaitPoint& point) override;

 private:
  std::chrono::steady_clock::time_point origin_;
};

// Time stands still while any counted thread runs, and jumps to the earliest deadline when all
// wait. Durations are then exact, and a deadlock reaches its deadline at once.
class VirtualClock : public RunClock {
 public:
  std::int64_t Now() const override { return now_.load(); }
  bool Wait(std::unique_lock<std::mutex>& lock, WaitPoint& point,
            std::int64_t deadline_ns) override;
  void Notify(WaitPoint& point) override;
  void AddThread() override;
  void RemoveThread() override;
  bool IsVirtual() const override { return true; }

 private:
  void WakeEarliest();  // mutex_ held
  void Wake(VirtualWaiter& waiter, bool timed_out);

  std::mutex mutex_;  // taken after the mutex of a wait
  std::atomic<std::int64_t> now_{0};
  int running_ = 0;                                       // guarded by mutex_
  std::multimap<std::int64_t, VirtualWaiter*> sleepers_;  // by deadline; guarded by mutex_
};

}  // namespace foretrain
