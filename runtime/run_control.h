// What all threads of a run share to end it: the abort flag, the first error and who had it.
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
  bool Aborted() const { return aborted_.load(); }

  // Ends the run. The first error given is the run's; every waiting thread wakes and returns
  // kAborted. `rank`: of the caller, or -1. Returns whether this error was the first.
  bool Fail(int rank, Error error);

  // The first error, and its rank; null while none.
  std::optional<Error> FirstError() const;
  int FailedRank() const;

  // The kAborted error of a rank that stops because of another.
  Error AbortedError() const;

 private:
  friend class Gate;
  void Register(Gate* gate);
  void Unregister(Gate* gate);

  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::optional<Error> first_;  // guarded by mutex_
  int failed_rank_ = -1;        // guarded by mutex_
  std::vector<Gate*> gates_;    // guarded by mutex_
};

}  // namespace foretrain
