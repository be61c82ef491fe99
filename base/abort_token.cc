#include "base/abort_token.h"

#include <algorithm>

namespace foretrain {

Deadline DeadlineIn(double seconds) {
  FT_CHECK(seconds >= 0);
  constexpr double kForever = 100.0 * 365 * 86400;  // int64_t nanoseconds end after 292 years
  const std::chrono::duration<double> wait(std::min(seconds, kForever));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Deadline::duration>(wait);
}

bool AbortToken::Abort(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (first_error_) return false;
    first_error_ = std::move(error);
  }
  stop_.request_stop();  // wakes the waiters, which then find the error
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
