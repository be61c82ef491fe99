// A flag that stops every thread of a run that waits. The first Error to arrive becomes the run's
// error; all other threads stop with kAborted. Signals are handled in app/, which turns them into
// an Abort.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/result.h"

namespace foretrain {

// A moment of the monotonic clock at which a wait gives up.
using Deadline = std::chrono::steady_clock::time_point;

// The moment `seconds` from now; `seconds` is >= 0 and not NaN, and is capped at 100 years.
Deadline DeadlineIn(double seconds);

// Shared by the threads of one run, each of which borrows it. Safe from any thread, but not from a
// signal handler.
class AbortToken {
 public:
  AbortToken() = default;
  AbortToken(const AbortToken&) = delete;
  AbortToken& operator=(const AbortToken&) = delete;

  // Stops all current and future waits. True if this call was the first: its error is then the
  // run's. Errors of later calls are dropped.
  bool Abort(Error error);

  // True once Abort was called. One atomic load: cheap enough for inner loops.
  bool aborted() const noexcept { return stop_.stop_requested(); }

  // The first error; `nullopt` before Abort.
  std::optional<Error> first_error() const;

  // kAborted with the first error's text once Abort was called, else success. Threads return this
  // to stop.
  Result<void> Check() const;

  // Waits on `condition` until `ready()`, which is called with the lock held.
  //
  //   lock      holds the mutex that guards what `ready` reads; held again on return
  //   describe  makes the text of a timeout ("all_reduce #412: rank 3 did not arrive"); called
  //             only on a timeout, with the lock held
  //
  // Errors: kAborted as in Check; kTimeout if the deadline passes first. If `ready()` is true, the
  // wait succeeds even after an abort or the deadline.
  template <class Ready, class Describe>
  Result<void> Wait(std::condition_variable_any& condition, std::unique_lock<std::mutex>& lock,
                    Deadline deadline, Ready ready, Describe describe) const {
    if (condition.wait_until(lock, stop_.get_token(), deadline, std::move(ready))) return {};
    FT_TRY(Check());
    return Fail(ErrorCode::kTimeout, describe());
  }

 private:
  std::stop_source stop_;
  mutable std::mutex mutex_;
  std::optional<Error> first_error_;  // guarded by mutex_; set before stop_ is
};

}  // namespace foretrain
