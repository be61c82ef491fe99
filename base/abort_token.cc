#include "base/abort_token.h"

#include <algorithm>

namespace foretrain {

Deadline DeadlineIn(double seconds) {
  FT_CHECK(seconds >= 0);
  constexpr double kForever = 100.0 * 365 * 86400;  // int64_t nanoseconds cover 292 years
  const std::chrono::duration<double> wait(std::min(seconds, kForever));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Deadline::duration>(wait);
}

// The error is stored before the stop flag is set, so a thread that sees the flag always finds the
// error. request_stop wakes the waiters and runs without mutex_: they call Check, which takes it.
bool AbortToken::Abort(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (first_error_) return false;
    first_error_ = std::move(error);
  }
  stop_.request_stop();
  return true;
}

std::optional<Error> AbortToken::first_error() const {
  const std::lock_guard lock(mutex_);
  return first_error_;
}

Result<void> AbortToken::Check() const {
  if (!aborted()) return {};
  const std::lock_guard lock(mutex_);
  return Fail(ErrorCode::kAborted, "stopped because of: " + first_error_->message);
}

}  // namespace foretrain
