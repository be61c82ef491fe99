#include "runtime/run/run_control.h"

#include <string>
#include <utility>

#include "runtime/run/gate.h"

namespace foretrain {

// The error is stored before the flag is set, so a thread that sees the flag always finds the
// error. Gates are woken under mutex_, which also guards their list.
bool RunControl::Fail(int rank, Error error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (first_error_) return false;
  first_error_ = std::move(error);
  failed_rank_ = rank;
  aborted_ = true;
  for (Gate* gate : gates_) gate->WakeAll();
  return true;
}

std::optional<Error> RunControl::FirstError() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return first_error_;
}

Error RunControl::AbortedError() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!first_error_) return {ErrorCode::kAborted, "stopped"};
  const std::string who =
      failed_rank_ < 0 ? std::string("the run") : "rank " + std::to_string(failed_rank_);
  return {ErrorCode::kAborted, "stopped because " + who + " failed: " + first_error_->message};
}

void RunControl::Register(Gate* gate) {
  const std::lock_guard<std::mutex> lock(mutex_);
  gates_.push_back(gate);
}

void RunControl::Unregister(Gate* gate) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(gates_, gate);
}

}  // namespace foretrain
