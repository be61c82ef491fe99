// State shared by all ranks of a run. State of one rank: runtime/executor/rank_run.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/data/batch_source.h"
#include "runtime/device/device.h"
#include "runtime/executor/compute_turns.h"
#include "runtime/executor/executor.h"
#include "runtime/run/flight.h"
#include "runtime/run/gate.h"
#include "runtime/run/run_clock.h"
#include "runtime/run/run_control.h"
#include "runtime/run/run_sink.h"

namespace foretrain {

// Number of steps that all ranks run. A requested stop takes effect after the last step that any
// rank has begun, or, with other processes, may have begun.
class StepLimit {
 public:
  // `agreement` may be null; it counts steps from the executor's first, of which `first` have run.
  StepLimit(std::int64_t end, std::function<bool()> stop, StepAgreement* agreement,
            std::int64_t first)
      : end_(end), asked_(end), first_(first), stop_(std::move(stop)), agreement_(agreement) {}

  // True if the caller's rank may begin `step`; each rank asks for its steps in order.
  bool Begin(std::int64_t step) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool stop = !stopped_ && stop_ && stop_();
    if (agreement_ != nullptr) {
      if (step < end_ && !agreement_->MayBegin(first_ + step, stop)) end_ = step;
    } else if (stop) {
      end_ = std::min(end_, begun_);
    }
    stopped_ = stopped_ || stop || end_ < asked_;
    if (step >= end_) return false;
    begun_ = std::max(begun_, step + 1);
    return true;
  }

  // Ends the run after `step`, which all ranks have begun and in which all ranks call this.
  void EndAfter(std::int64_t step) {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = std::min(end_, step + 1);
  }

  bool stopped() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stopped_;
  }
  std::int64_t begun() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return begun_;
  }

 private:
  mutable std::mutex mutex_;
  std::int64_t end_;  // guarded by mutex_, as all below
  const std::int64_t asked_;
  const std::int64_t first_;
  std::int64_t begun_ = 0;  // number of steps begun
  bool stopped_ = false;
  const std::function<bool()> stop_;
  StepAgreement* const agreement_;
};

struct RunShared {
  // shared with the executor's maker and with threads that outlive a failed run
  const std::shared_ptr<const Program> program;
  const FtDeviceApi& api;
  RunClock& clock;
  const ExecutorOptions options;
  RunControl& control;
  FlightRecorder flight;
  Gate stall_gate;  // gate at which threads sleep that an injected fault stalls or delays
  ComputeTurns turns;
  std::mutex sink_mutex;
  DeviceShares shares;  // one for each rank here, by place; created before the ranks

  // `the_control` outlives it.
  RunShared(std::shared_ptr<const Program> the_program, const FtDeviceApi& the_api,
            RunClock& the_clock, RunControl& the_control, ExecutorOptions the_options, int world)
      : program(std::move(the_program)),
        api(the_api),
        clock(the_clock),
        options(std::move(the_options)),
        control(the_control),
        flight(world),
        stall_gate(clock, control),
        turns(clock, control, options.take_turns) {}
};

// One call of Executor::Run, or the search for the op that made a step's gradient not finite.
struct RunCall {
  std::int64_t first_step = 0;
  std::int64_t steps = 0;
  BatchSource* batches = nullptr;
  RunSink* sink = nullptr;
  StepLimit limit;
  // Search: each op's outputs are checked, and nothing is recorded.
  bool searches = false;

  // Notes that the gradient of `step` is not finite, and ends the run with that step. All ranks
  // call it, because all have the same norm.
  void EndWith(std::int64_t step) {
    limit.EndAfter(step - first_step);
    not_finite_step = step;
  }
  std::atomic<std::int64_t> not_finite_step{-1};
};

}  // namespace foretrain
