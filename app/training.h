// Runs a plan under the store and a progress bar: what `train`, `demo` and `bench` share.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/emulated_run.h"
#include "app/forecasting.h"
#include "app/rank_devices.h"
#include "app/report.h"
#include "app/stored_runs.h"
#include "base/result.h"
#include "profiler/capture.h"
#include "runtime/trainer.h"

namespace foretrain {

struct TrainingOptions {
  std::int64_t steps = 100;
  LearningRate learning_rate;
  std::uint64_t seed = 0;
  std::string data;  // file; empty: `text`
  std::string text;  // bytes to train on, named `data_name`
  std::string data_name;
  std::string init;               // safetensors; empty: fresh weights
  bool pattern_weights = false;   // fresh ones that repeat, made in a fraction of the time
  std::int64_t budget_bytes = 0;  // of each rank; 0: the machine's
  int sm_share = 0;               // multiprocessors of a rank; 0: all
  bool graphs = false;            // kernels that do the same each step are launched as graphs
  AttentionChoice attention = AttentionChoice::kAuto;  // kernels of attention
  bool virtual_time = false;  // ranks take turns, and what they would take apart is emulated
  bool pin = false;           // ranks to the cores of their slots
  std::int64_t timeout_ns = 600'000'000'000;  // of a rank that waits for its peers
  std::string nvme_folder = "/tmp";           // of what is offloaded to a disk
  double cap_copy_bytes_per_s = 0;            // of copies in each direction; 0: none
  double cap_nvme_bytes_per_s = 0;            // of a rank's disk
  bool json_lines = false;                    // a line a step on stdout
  bool progress = true;  // a bar on stderr where that is a terminal, else a line now and then
  CaptureLevel capture = CaptureLevel::kFull;
  CaptureWindow window;
  const FtDeviceApi* device = nullptr;  // what computes; null: the CPU
  RankDevices ranks;                    // where each rank computes
};

// What recording cost. A run whose window leaves steps out measures it itself; the first step of a
// run, which warms up, is left out of both medians.
struct CaptureCost {
  double share = 0;                           // of the recording threads' CPU time
  std::optional<double> recorded_step_s{};    // median of the window's steps
  std::optional<double> unrecorded_step_s{};  // of the others; neither with fewer than 3 of each
};

struct TrainingResult {
  RunId run = 0;  // measured
  RunId forecast = 0;
  RunSummary summary;
  Metrics metrics;                   // of the measured timeline, the first step left out
  std::int64_t predicted_bytes = 0;  // arenas of all ranks together, in the machine's memory
  OffloadFigures offload;            // peaks as measured
  double first_loss = 0;
  double last_loss = 0;
  EmulatedRun emulated;      // of virtual time
  double machine_drift = 1;  // reference GEMM around the run over the profile's; 1: unknown
  CaptureCost capture_cost;
};

// Stores the forecast, commits the run's row, trains, and stores what was measured as it comes. A
// signal (SIGINT, SIGTERM) ends the run at a step boundary; `stopped` in the summary says so, and
// the run is stored as interrupted. A fault ends it as failed, with the error's text.
//
// Errors: those of data, weights, training and the store. What was stored before stays.
Result<TrainingResult> RunTraining(Store& store, const ForecastContext& context, const Plan& plan,
                                   const TrainingOptions& options);

// The part of RunTraining of a process that is not rank 0's: what it records goes there.
//
// Errors: those of data, weights and training, of any process.
Result<void> TrainAsMember(const ForecastContext& context, const Plan& plan,
                           const TrainingOptions& options);

// The figures of what `recorder` was given, read back from the store at `path` part by part and
// added to the run. The memory it takes does not grow with the steps but for the figures of each.
Result<Metrics> MetricsOfRecording(const std::string& path, RunRecorder& recorder,
                                   const MetricOptions& options);

}  // namespace foretrain
