// Selection of what is recorded in a run (level, steps, ranks), and the interface by which an
// executor announces ops. Recording is in profiler/span_recorder.h and profiler/capture_session.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

// kOff: step times only. kLaunches: also spans of ops as the host sees them, and the calls to the
// device. kFull: also memory and the device's work.
enum class CaptureLevel : std::uint8_t { kOff, kLaunches, kFull };

// Steps first_step to end_step - 1 of the training, of some ranks.
struct CaptureWindow {
  std::int64_t first_step = 0;
  std::int64_t end_step = std::numeric_limits<std::int64_t>::max();
  std::vector<int> ranks{};  // sorted; empty means all

  bool CoversStep(std::int64_t step) const { return step >= first_step && step < end_step; }
  bool CoversRank(int rank) const {
    return ranks.empty() || std::binary_search(ranks.begin(), ranks.end(), rank);
  }
};

// Calls from an executor to a device's recording. They never fail and never wait for the device.
class OpCapture {
 public:
  virtual ~OpCapture() = default;

  // A rank's host is about to issue the first op of a step. Each rank calls it, in order of steps.
  virtual void BeginStep(int rank, std::int64_t step) = 0;

  // Work that the calling thread gives the device until EndOp belongs to the op. If false, nothing
  // was begun and EndOp must not be called.
  virtual bool BeginOp(int rank, std::int64_t step, OpId op) = 0;
  virtual void EndOp() = 0;

  // True if the device itself records when it worked on each op. Host spans then need not be those
  // of single ops.
  virtual bool RecordsWork() const { return false; }
};

// Scope of one op on the calling thread. A null capture costs nothing.
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
