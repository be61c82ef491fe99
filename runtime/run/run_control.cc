#include "runtime/run/run_control.h"

#include <string>
#include <utility>

#include "runtime/run/gate.h"

namespace foretrain {

// The token decides which error is first; gates are woken under mutex_, which also guards their
// list.
bool RunControl::Fail(int rank, Error error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!token_.Abort(std::move(error))) return false;
  failed_rank_ = rank;
  for (Gate* gate : gates_) gate->WakeAll();
  return true;
}

Error RunControl::AbortedError() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto first = token_.first_error();
  if (!first.has_value()) return {ErrorCode::kAborted, "stopped"};
  const std::string who =
      failed_rank_ < 0 ? std::string("the run") : "rank " + std::to_string(failed_rank_);
  return {ErrorCode::kAborted, "stopped because " + who + " failed: " + first->message};
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
