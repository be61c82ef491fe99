// Trains a compiled plan: weights, learning rate, data and the executor put together. Leaves out
// the command line and the store: app/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "profiler/capture_session.h"
#include "runtime/executor.h"
#include "runtime/parameters/tensors.h"
#include "runtime/processes/process_group.h"

namespace foretrain {

// lr rises in a line over `warmup` steps, then stays, or falls as a cosine to a tenth at `steps`.
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
  // Where ranks are processes: that of this one, whose rank `executor.local` names and whose world
  // `executor.world` makes; borrowed. What all record goes to rank 0's sink.
  ProcessGroup* processes = nullptr;
  // The device's own recording of this process's ranks, which the executor's is then; null: none.
  // Finished when Train returns. Shared with threads that outlive a failed run.
  std::shared_ptr<CaptureSession> capture;
};

// Runs the job to its end, or to the step boundary after `stop` has said so. The summary is that of
// all ranks, in rank 0's process.
//
//   api, clock, batches, sink  borrowed
//
// Errors: those of Executor::Make and Run, and of the weights.
Result<RunSummary> Train(const TrainJob& job, const FtDeviceApi& api, RunClock& clock,
                         BatchSource& batches, RunSink& sink, std::function<bool()> stop = nullptr);

}  // namespace foretrain
