// Small runs that save checkpoints and go on from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "base/result.h"
#include "runtime/checkpoint/saver.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct SavedRun {
  std::string folder{};          // of checkpoints; empty: none are saved
  std::int64_t every_steps = 2;  // between them
  int keep = 100;
  std::int64_t steps = 4;  // in all, those before `from` included
  std::string from{};      // a checkpoint, or a folder of them; empty: a fresh run
  std::uint64_t seed = 5;
  double learning_rate = 1e-2;
  const FtDeviceApi* api = nullptr;  // null: the CPU's
  bool skips_spikes = false;
  FaultInjector* faults = nullptr;
  std::int64_t first_step = -1;  // after `from`; -1: the checkpoint's
};

struct RunResult {
  std::vector<float> losses;          // of the steps that ran, in order
  std::vector<std::int64_t> spikes;   // steps whose loss was told as one
  std::vector<std::int64_t> skipped;  // steps without an update
  std::vector<SaveReport> saves;
  std::vector<std::string> damaged;  // errors of checkpoints that were passed over
};

// Trains `model` under `plan` on TrainingText.
Result<RunResult> TrainSaved(const ModelSpec& model, const Plan& plan, const SavedRun& run);

// Trains four steps that are saved after two and four, and the last two once more from the first
// checkpoint. Expects equal losses, and equal bytes of both checkpoints after four steps.
void ExpectGoesOnToTheBit(const ModelSpec& model, const Plan& plan);

// A fresh folder for the test that runs.
std::string FreshFolder();

// The names of the folder's checkpoints, newest first.
std::vector<std::string> CheckpointsIn(const std::string& folder);

// The files of tensors in a checkpoint, one after the other.
std::string TensorBytes(const std::string& checkpoint);

}  // namespace foretrain
