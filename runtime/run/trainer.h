// Trains a compiled plan: combines weights, learning rate, data and executor. Command line and
// store: app/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "profiler/capture_session.h"
#include "runtime/executor/executor.h"
#include "runtime/parameters/tensors.h"
#include "runtime/processes/process_group.h"

namespace foretrain {

// The learning rate rises linearly over `warmup` steps, then stays, or falls as a cosine to a tenth
// at `steps`.
struct LearningRate {
  double peak = 3e-4;
  std::int64_t warmup = 0;
  bool cosine = false;
  std::int64_t steps = 0;

  float At(std::int64_t step) const;
};

struct TrainJob {
  std::shared_ptr<const Program> program;  // linked, all ranks; shared with the executor's threads
  std::int64_t steps = 0;                  // > 0
  LearningRate learning_rate;
  std::uint64_t seed = 0;
  TensorSource weights;  // null: InitialWeights with the seed
  ExecutorOptions executor;
  // If ranks are processes: the group of this one. `executor.local` names its rank,
  // `executor.world` makes its communicators. Borrowed. All records go to rank 0's sink.
  ProcessGroup* processes = nullptr;
  // The device's recording of this process's ranks, also used by the executor; null: none. Finished
  // when Train returns. Shared with threads that outlive a failed run.
  std::shared_ptr<CaptureSession> capture;
};

// Runs the job to its end, or to the step boundary after `stop` returns true. In rank 0's process
// the summary covers all ranks.
//
//   api, clock, batches, sink  borrowed; batches are read ahead of the steps that use them
//
// Errors: those of Executor::Make and Run, and of the weights.
Result<RunSummary> Train(const TrainJob& job, const FtDeviceApi& api, RunClock& clock,
                         BatchSource& batches, RunSink& sink, std::function<bool()> stop = nullptr);

}  // namespace foretrain
