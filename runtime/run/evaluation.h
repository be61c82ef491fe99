// The loss on other data than that of the training, between two of its steps.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "runtime/data/batch_source.h"
#include "runtime/executor/executor.h"
#include "runtime/run/run_sink.h"

namespace foretrain {

struct EvaluationJob {
  std::shared_ptr<const Program> program;  // CompileEvaluation of the training's; null: none
  std::int64_t every = 0;                  // steps between two evaluations; > 0
  std::int64_t batches = 1;                // the first ones of `data`, > 0
  BatchSource* data = nullptr;             // borrowed
};

// Evaluates with the parameters of a training, in its memory. Makes threads and communicators of
// its own; nothing of the training changes but memory that its steps leave undefined.
class HeldOutLoss {
 public:
  //   training, api, clock  outlive the evaluator
  //   options               those of the training, whose ranks it also runs here
  //
  // Errors: those of Executor::Make.
  static Result<std::unique_ptr<HeldOutLoss>> Make(const EvaluationJob& job, Executor& training,
                                                   const FtDeviceApi& api, RunClock& clock,
                                                   const ExecutorOptions& options);

  // Between two runs of the training, after its step `step`: with its moving averages if it keeps
  // any, else with its parameters. All processes of a training call it
  // together, and each gets the same loss. Errors: those of Executor::Run.
  Result<EvaluationReport> Run(std::int64_t step);

  // Whether an evaluation follows the step before `next`.
  bool IsDue(std::int64_t next) const { return next % job_.every == 0; }
  // The first step after `next` before which an evaluation is due.
  std::int64_t NextAfter(std::int64_t next) const { return (next / job_.every + 1) * job_.every; }

 private:
  HeldOutLoss(const EvaluationJob& job, Executor& training, std::unique_ptr<Executor> executor)
      : job_(job), training_(training), executor_(std::move(executor)) {}

  const EvaluationJob job_;
  Executor& training_;
  const std::unique_ptr<Executor> executor_;
};

}  // namespace foretrain
