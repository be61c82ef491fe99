// The settings of one training run, as commands fill them in. Leaves out reading them from a
// command line: app/commands/train.cc.
#pragma once

#include <cstdint>
#include <string>

#include "app/training/checkpoints.h"
#include "app/training/evaluation/evaluation_options.h"
#include "app/training/outputs/step_files.h"
#include "app/training/rank_devices.h"
#include "base/device_api.h"
#include "profiler/capture.h"
#include "runtime/run/trainer.h"

namespace foretrain {

struct TrainingOptions {
  // Steps in all, learning rate, seed and the executor's settings. RunTraining adds the program,
  // weights, ranks, checkpoints, the profile's algorithms and the device's own recording.
  TrainJob job;
  std::string data;                // files (runtime/data/data_sources.h); empty: `text`
  std::string tokenizer;           // of `data`, if those are texts; empty: one token a byte
  bool shuffle = false;            // reads the samples of `data` in another order in each epoch
  std::int32_t document_end = -1;  // token that ends a document; -1: the tokenizer's own
  std::string text;                // bytes to train on, called `data_name`
  std::string data_name;
  std::string init;              // safetensors file; empty: fresh weights
  std::string adapters;          // folder of PEFT adapters of `init`; empty: none
  bool pattern_weights = false;  // fresh weights that repeat: made in a fraction of the time
  CheckpointOptions checkpoints;
  EvaluationOptions evaluation;
  StepFilePaths step_files;
  bool json_lines = false;  // one line a step on stdout
  bool progress = true;     // progress on stderr, unless json_lines
  CaptureLevel capture = CaptureLevel::kFull;
  bool recording_required = false;        // a store that cannot be written ends the run
  std::int64_t counters_interval_ns = 0;  // between samples of hardware counters; 0: none
  const FtDeviceApi* device = nullptr;    // null: the CPU
  RankDevices ranks;                      // the device of each rank
};

}  // namespace foretrain
