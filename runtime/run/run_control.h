// Ends a run on all its threads: the abort token, the rank that failed first, and the gates at
// which threads sleep.
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

  // Ends the run. The first error is the run's; every waiting thread wakes and returns kAborted.
  // `rank` is the caller's, or -1. Returns true if this error was the first.
  bool Fail(int rank, Error error);

  // The first error, or `nullopt`.
  std::optional<Error> FirstError() const { return token_.first_error(); }

  // The kAborted error for a rank that stops because of another.
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
