// Runs work on a thread that always continues with the newest request, as a view needs while the
// user drags.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/result.h"

namespace foretrain::ui {

// Requests are numbered from 1. All functions are for one thread, the view's. Only Await and the
// destructor wait, for the current work.
template <class Request, class Answer>
class LatestWorker {
 public:
  // `outdated` returns whether a newer request waits or the work was cancelled; long work may then
  // end early with any error.
  using Outdated = std::function<bool()>;
  using Work = std::function<Result<Answer>(const Request& request, const Outdated& outdated)>;

  struct Answered {
    std::uint64_t number = 0;  // of the request
    Result<Answer> answer;
  };

  explicit LatestWorker(Work work) : work_(std::move(work)), thread_([this] { Run(); }) {}
  ~LatestWorker() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      waiting_.reset();
    }
    changed_.notify_one();
    thread_.join();
  }
  LatestWorker(const LatestWorker&) = delete;
  LatestWorker& operator=(const LatestWorker&) = delete;

  // Replaces a request that still waits. Returns the number of the new one.
  std::uint64_t Ask(Request request) {
    const std::lock_guard lock(mutex_);
    waiting_ = std::move(request);
    changed_.notify_one();
    return ++asked_;
  }

  // Drops the waiting request, and the answer of the current one.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    waiting_.reset();
    if (working_ > 0) dropped_ = working_;
  }

  // The newest answer, once. It may belong to a request older than the newest, but never to one
  // older than an answer taken before.
  std::optional<Answered> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(done_, std::nullopt);
  }

  // Waits at most `max` until the newest request is answered; returns at once if nothing is in
  // progress. Returns whether its answer is ready to be taken.
  bool Await(std::chrono::nanoseconds max) const {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, max, [this] { return !waiting_ && working_ == 0; });
    return done_.has_value() && done_->number == asked_;
  }

  // Whether an answer is in progress or ready to be taken.
  bool IsBusy() const {
    const std::lock_guard lock(mutex_);
    return waiting_.has_value() || done_.has_value() || (working_ > 0 && working_ != dropped_);
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || waiting_.has_value(); });
      if (ending_) return;
      const Request request = *std::exchange(waiting_, std::nullopt);
      working_ = asked_;
      lock.unlock();
      Result<Answer> answer = Do(request);
      lock.lock();
      if (working_ != dropped_) done_ = Answered{working_, std::move(answer)};
      working_ = 0;
      ended_.notify_one();
    }
  }

  Result<Answer> Do(const Request& request) {
    const Outdated outdated = [this] {
      const std::lock_guard lock(mutex_);
      return ending_ || waiting_.has_value() || working_ == dropped_;
    };
    try {
      return work_(request, outdated);
    } catch (const std::exception& error) {
      return Fail(ErrorCode::kResourceExhausted, error.what());
    }
  }

  const Work work_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  mutable std::condition_variable ended_;
  std::optional<Request> waiting_;  // all below: guarded by mutex_
  std::optional<Answered> done_;
  std::uint64_t asked_ = 0;
  std::uint64_t working_ = 0;  // number of the current request; 0 if none
  std::uint64_t dropped_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace foretrain::ui
