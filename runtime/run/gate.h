// A place to wait: a mutex, a wait point, a count of sleepers that makes waking cheap if nobody
// sleeps, and the end of the run. Time: runtime/run/run_clock.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"

namespace foretrain {

enum class WaitEnd : std::uint8_t { kReady, kTimeout, kAborted };

// Threads sleep here until a condition on atomics holds. Writers change the condition without the
// mutex, by sequentially consistent stores, then call Wake(). A sleeper first counts itself and
// then tests the condition, so at least one of the two sees the other.
class Gate {
 public:
  // Both outlive the gate.
  Gate(RunClock& clock, RunControl& control) : clock_(clock), control_(control) {
    control_.Register(this);
  }
  ~Gate() { control_.Unregister(this); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Waits until ready(), the deadline on the clock, or the run's abort. `ready` reads only
  // sequentially consistent atomics. Spins for some hundred nanoseconds before it sleeps.
  template <class Ready>
  WaitEnd Wait(Ready ready, std::int64_t deadline_ns) {
    if (ready()) return WaitEnd::kReady;
    if (!clock_.IsVirtual()) {
      for (int i = 0; i < kSpins; ++i) {
        Pause();
        if (ready()) return WaitEnd::kReady;
      }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    WaitEnd end = WaitEnd::kReady;
    while (!ready()) {
      if (control_.Aborted()) {
        end = WaitEnd::kAborted;
        break;
      }
      if (!clock_.Wait(lock, point_, deadline_ns) && !ready()) {
        end = control_.Aborted() ? WaitEnd::kAborted : WaitEnd::kTimeout;
        break;
      }
    }
    sleepers_.fetch_sub(1);
    return end;
  }

  // Sleeps for `duration_ns`, or until the run is aborted.
  WaitEnd Sleep(std::int64_t duration_ns) {
    const std::int64_t deadline_ns = clock_.Now() + duration_ns;
    const WaitEnd end = Wait([&] { return clock_.Now() >= deadline_ns; }, deadline_ns);
    return end == WaitEnd::kTimeout ? WaitEnd::kReady : end;
  }

  // Wakes all sleepers. About a nanosecond if there are none.
  void Wake() {
    if (sleepers_.load() == 0) return;
    WakeAll();
  }

  void WakeAll() {
    // A sleeper that has tested its condition holds the mutex until it waits, so taking it once
    // orders this wake after that.
    { const std::lock_guard<std::mutex> lock(mutex_); }
    clock_.Notify(point_);
  }

 private:
  static constexpr int kSpins = 20;  // 0.3 to 1 µs, less than one sleep costs
  static void Pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  RunClock& clock_;
  RunControl& control_;
  std::mutex mutex_;
  WaitPoint point_;
  std::atomic<int> sleepers_{0};
};

}  // namespace foretrain
