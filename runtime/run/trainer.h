// Trains a compiled plan: combines weights, learning rate, data and executor. Command line and
// store: app/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "profiler/capture_session.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/executor/executor.h"
#include "runtime/parameters/tensors.h"
#include "runtime/processes/process_group.h"
#include "runtime/run/evaluation.h"
#include "runtime/run/learning_rate.h"

namespace foretrain {

// When checkpoints are saved, and what they say of the run.
struct SavePlan {
  SaverOptions saver;            // without a folder nothing is saved
  std::int64_t every_steps = 0;  // 0: not by steps
  std::int64_t every_ns = 0;     // 0: not by time; else all ranks are in this process
  TrainingTime time;             // of the training before this run
  std::function<void(const SaveReport&)> on_saved;  // called from another thread
};

struct TrainJob {
  std::shared_ptr<const Program> program;  // linked, all ranks; shared with the executor's threads
  std::int64_t steps = 0;                  // > 0
  LearningRate learning_rate;
  std::uint64_t seed = 0;
  TensorSource weights;  // null: InitialWeights with the seed
  // State to go on from, after `weights`; its step is the executor's first. Null: a fresh run.
  std::shared_ptr<const Checkpoint> resume;
  bool skips_spikes = false;  // leaves out the update of a step whose loss is a spike
  EvaluationJob evaluation;
  SavePlan save;
  ExecutorOptions executor;
  // If ranks are processes: the group of this one. `executor.local` names its rank,
  // `executor.world` makes its communicators. Borrowed. All records go to rank 0's sink.
  ProcessGroup* processes = nullptr;
  // The device's recording of this process's ranks, also used by the executor; null: none. Finished
  // when Train returns. Shared with threads that outlive a failed run.
  std::shared_ptr<CaptureSession> capture;
};

// Runs the job to its end, or to the step boundary after `stop` returns true, and saves there too
// if it saves at all. In rank 0's process the summary covers all ranks.
//
//   api, clock, batches, sink  borrowed; batches are read ahead of the steps that use them
//
// Errors: those of Executor::Make and Run, of the weights, of the checkpoint to resume from, and of
// CheckSkipsSpikes if spikes are skipped. A
// checkpoint that cannot be written is reported (SaveReport), and the run goes on.
Result<RunSummary> Train(const TrainJob& job, const FtDeviceApi& api, RunClock& clock,
                         BatchSource& batches, RunSink& sink,
                         const std::function<bool()>& stop = nullptr);

}  // namespace foretrain
