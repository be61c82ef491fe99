// What is recorded of a run: how much, and of which steps and ranks; and how an executor tells
// which op it is at. Leaves out recording itself (profiler/span_recorder.h,
// profiler/capture_session.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

// kOff: how long steps took. kLaunches: spans of ops as the host sees them too, and on a device of
// its own its calls. kFull: memory and what the device did besides.
enum class CaptureLevel : std::uint8_t { kOff, kLaunches, kFull };

// Steps first_step to end_step - 1 of the training, of some ranks.
struct CaptureWindow {
  std::int64_t first_step = 0;
  std::int64_t end_step = std::numeric_limits<std::int64_t>::max();
  std::vector<int> ranks{};  // sorted; empty is all

  bool CoversStep(std::int64_t step) const { return step >= first_step && step < end_step; }
  bool CoversRank(int rank) const {
    return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
  }
};

// What an executor tells a device's recording. Calls never fail and never wait for the device.
class OpCapture {
 public:
  virtual ~OpCapture() = default;

  // A rank's host is about to issue the first op of a step; each rank calls it, steps in order.
  virtual void BeginStep(int rank, std::int64_t step) = 0;

  // Whatever the calling thread gives the device until EndOp is the op's. False: nothing was
  // begun, and EndOp must not be called.
  virtual bool BeginOp(int rank, std::int64_t step, OpId op) = 0;
  virtual void EndOp() = 0;

  // Whether the device itself records when it did each op's work, so that a host's spans need not
  // be those of single ops.
  virtual bool RecordsWork() const { return false; }
};

// An op of the calling thread. A null capture costs nothing.
class OpScope {
 public:
  OpScope(OpCapture* capture, int rank, std::int64_t step, OpId op)
      : capture_(capture != nullptr && capture->BeginOp(rank, step, op) ? capture : nullptr) {}
  ~OpScope() {
    if (capture_ != nullptr) capture_->EndOp();
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

 private:
  OpCapture* const capture_;
};

}  // namespace foretrain
