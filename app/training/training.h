// Trains a plan and stores its forecast and its measurement: for `train`, `demo` and `bench`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/forecast/forecasting.h"
#include "app/report/report.h"
#include "app/runs/stored_runs.h"
#include "app/training/run_recording.h"
#include "app/training/training_options.h"
#include "base/result.h"

namespace foretrain {

// A run of `train --virtual-time` played again as if each rank had a device of its own.
struct EmulatedRun {
  RunId run = 0;  // 0: none
  double step_s = 0;
  double covered = 0;  // share of the compute ops that were measured
};

struct TrainingResult {
  RunId run = 0;  // measured
  RunId forecast = 0;
  RunSummary summary;
  Metrics metrics;  // of the measured timeline, without the first step
  // In the machine's memory: arenas of all ranks, and their copies for checkpoints.
  std::int64_t predicted_bytes = 0;
  OffloadStats offload;  // peaks as measured
  double first_loss = 0;
  double last_loss = 0;
  std::optional<double> evaluation_loss;  // the last one, if any
  EmulatedRun emulated;                   // with virtual time only
  double machine_drift = 1;  // reference GEMM around the run over the profile's; 1: unknown
  CaptureCost capture_cost;
  CheckpointCost predicted_checkpoint;
  std::vector<SaveReport> saves;  // of rank 0's process, in order
  double document_tokens = 0;     // that the forecast counts with (SetDocumentTokens); 0: none
  double goodput = 0;             // of all runs of the training (GoodputOf); 0: unknown
  std::string unrecorded;         // why a part of the run was not recorded; empty: all of it was
};

// Stores the forecast, commits the run's row, trains, and stores measurements as they come.
// SIGINT, SIGTERM or SIGHUP ends the run at a step boundary: the summary says `stopped`, and the
// run is stored as interrupted. A store that fails ends it only with recording_required. A fault
// ends it as failed, with the error's text.
//
// Errors: those of data, weights, training and the store. An error about memory names up to two
// changes of the plan that fit. Everything stored before the error stays.
Result<TrainingResult> RunTraining(Store& store, const ForecastContext& context, const Plan& plan,
                                   const TrainingOptions& options);

// RunTraining for a process other than rank 0's. Its recording goes to rank 0's store. True if a
// process of the job was asked to stop before the last step.
//
// Errors: those of data, weights and training, of any process.
Result<bool> TrainAsMember(const ForecastContext& context, const Plan& plan,
                           const TrainingOptions& options);

}  // namespace foretrain
