// Ends a run on all its threads: the first error, the rank that failed first, and the gates at
// which threads sleep. Signals are handled in app/, which turns them into a failure.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"

namespace foretrain {

class Gate;

class RunControl {
 public:
  // True once the run was ended. One atomic load: cheap enough for inner loops.
  bool Aborted() const noexcept { return aborted_; }

  // Ends the run. The first error is the run's; every waiting thread wakes and returns kAborted.
  // `rank` is the caller's, or -1. Returns true if this error was the first.
  bool Fail(int rank, Error error);

  // The first error, or `nullopt`.
  std::optional<Error> FirstError() const;

  // The kAborted error for a rank that stops because of another.
  Error AbortedError() const;

 private:
  friend class Gate;
  void Register(Gate* gate);
  void Unregister(Gate* gate);

  std::atomic<bool> aborted_ = false;  // set after first_error_
  mutable std::mutex mutex_;
  std::optional<Error> first_error_;  // guarded by mutex_
  int failed_rank_ = -1;              // guarded by mutex_
  std::vector<Gate*> gates_;          // guarded by mutex_
};

}  // namespace foretrain
