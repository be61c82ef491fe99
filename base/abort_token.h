// One flag that stops everything that waits. The first Error to arrive is the run's; all others
// stop with kAborted. Leaves out signals, which app/ turns into an Abort.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "base/result.h"

namespace foretrain {

// A moment of the monotonic clock until which one waits.
using Deadline = std::chrono::steady_clock::time_point;

// `seconds` from now, >= 0 and not NaN; at most 100 years.
Deadline DeadlineIn(double seconds);

// Shared by the threads of one run, each of which borrows it. Safe from any thread, but not from a
// signal handler.
class AbortToken {
 public:
  AbortToken() = default;
  AbortToken(const AbortToken&) = delete;
  AbortToken& operator=(const AbortToken&) = delete;

  // Stops all who wait, now and later. True when this is the first and its error therefore the
  // run's; later ones are dropped.
  bool Abort(Error error);

  // Whether Abort was called: one atomic load, for loops.
  bool aborted() const noexcept { return stop_.stop_requested(); }

  // The first error, or nothing.
  std::optional<Error> first_error() const;

  // Fine, or kAborted with the first error's text: for a thread to stop with.
  Result<void> Check() const;

  // Waits on `condition` until `ready()`, which is called with the lock held.
  //
  //   lock      holds the mutex that guards what `ready` reads; held again on return
  //   describe  makes the message of a timeout, "all_reduce #412: rank 3 did not arrive": called
  //   with
  //             the lock held, and only then
  //
  // Errors: kAborted as Check; kTimeout when the deadline passes first. What is ready wins over
  // both.
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
