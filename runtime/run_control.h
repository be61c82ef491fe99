// What all threads of a run share to end it: the abort token, who failed first, and the gates at
// which threads sleep on the run's clock.
#pragma once

#include <mutex>
#include <vector>

#include "base/abort_token.h"
#include "base/result.h"

namespace foretrain {

class Gate;

class RunControl {
 public:
  bool Aborted() const noexcept { return token_.aborted(); }

  // Ends the run. The first error given is the run's; every waiting thread wakes and returns
  // kAborted. `rank`: of the caller, or -1. Returns whether this error was the first.
  bool Fail(int rank, Error error);

  // The first error, or nothing; and the rank it came from, or -1.
  std::optional<Error> FirstError() const { return token_.first_error(); }
  int FailedRank() const;

  // The kAborted error of a rank that stops because of another.
  Error AbortedError() const;

 private:
  friend class Gate;
  void Register(Gate* gate);
  void Unregister(Gate* gate);

  AbortToken token_;
  mutable std::mutex mutex_;
  int failed_rank_ = -1;      // guarded by mutex_
  std::vector<Gate*> gates_;  // guarded by mutex_
};

}  // namespace foretrain
