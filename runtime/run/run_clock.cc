#include "runtime/run/run_clock.h"

#include <algorithm>

#include "base/result.h"

namespace foretrain {

std::int64_t RealClock::Now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              origin_)
      .count();
}

bool RealClock::Wait(std::unique_lock<std::mutex>& lock, WaitPoint& point,
                     std::int64_t deadline_ns) {
  if (deadline_ns == kNever) {
    point.condition_.wait(lock);
    return true;
  }
  const auto deadline = origin_ + std::chrono::nanoseconds(deadline_ns);
  return point.condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
}

void RealClock::Notify(WaitPoint& point) { point.condition_.notify_all(); }

// One sleeping thread, on its own stack. `awake` and `timed_out` are set by Wake under the clock's
// mutex. `sleeper` is its entry in sleepers_.
struct VirtualWaiter {
  WaitPoint* point = nullptr;
  std::condition_variable condition;
  std::multimap<std::int64_t, VirtualWaiter*>::iterator sleeper;
  bool awake = false;
  bool timed_out = false;
};

// Virtual time advances only when every counted thread waits; then the earliest deadline becomes
// the present. mutex_ guards all waiters, and is taken after the caller's mutex.
bool VirtualClock::Wait(std::unique_lock<std::mutex>& lock, WaitPoint& point,
                        std::int64_t deadline_ns) {
  VirtualWaiter self;
  self.point = &point;
  std::unique_lock<std::mutex> clock_lock(mutex_);
  // Registered before the caller's mutex is released, so that no Notify is missed.
  point.virtual_waiters_.push_back(&self);
  self.sleeper = sleepers_.emplace(deadline_ns, &self);
  lock.unlock();
  if (--running_ == 0) WakeEarliest();
  self.condition.wait(clock_lock, [&] { return self.awake; });
  clock_lock.unlock();
  lock.lock();
  return !self.timed_out;
}

// Wake removes the waiter from the list, so the loop ends.
void VirtualClock::Notify(WaitPoint& point) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!point.virtual_waiters_.empty()) Wake(*point.virtual_waiters_.back(), false);
}

void VirtualClock::AddThread() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++running_;
}

// A thread that ends may be the last that ran: time must then move for those that wait.
void VirtualClock::RemoveThread() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--running_ == 0) WakeEarliest();
}

// All waiters with the earliest deadline wake together, so that none depends on the order in which
// threads are scheduled.
void VirtualClock::WakeEarliest() {
  if (sleepers_.empty()) return;  // the run is over
  const std::int64_t deadline = sleepers_.begin()->first;
  FT_CHECK(deadline != kNever);  // else all threads wait for each other without a deadline
  if (deadline > now_.load()) now_.store(deadline);
  while (!sleepers_.empty() && sleepers_.begin()->first == deadline) {
    Wake(*sleepers_.begin()->second, true);
  }
}

void VirtualClock::Wake(VirtualWaiter& waiter, bool timed_out) {
  std::erase(waiter.point->virtual_waiters_, &waiter);
  sleepers_.erase(waiter.sleeper);
  waiter.awake = true;
  waiter.timed_out = timed_out;
  ++running_;  // counts as running from now on, even before it is scheduled
  waiter.condition.notify_one();
}

}  // namespace foretrain
