// Measuring this machine from the command line: which plans, how it is shown, where it is kept.
// Leaves out how ops are timed: runtime/calibrate/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/plan_flags.h"
#include "runtime/calibrate/calibrate.h"
#include "sim/cost/device_profile.h"

namespace foretrain {

// The plans that a small machine is measured for: `base` on one rank and, from two ranks on, split
// over `ranks` by data, tensors and pipeline, each alone. Splits that the model cannot take are
// left out.
std::vector<CalibrationTarget> UsualTargets(const ModelSpec& model, const Plan& base, int ranks);

// What a GPU is measured for: a few layers of models whose matrices, attention, norms, experts and
// updates are small, middling and large, in fp32, tf32 and bf16. Errors: those of the catalogue.
Result<std::vector<CalibrationTarget>> GpuTargets();

struct CalibrationRequest {
  const FtDeviceApi* device = nullptr;  // null: the CPU
  int device_number = 0;
  std::vector<int> devices{};  // see CalibrateOptions
  WorldMaker world{};
  std::optional<ClusterSpec> cluster;  // of the device; nothing: this machine's cores
  std::vector<CalibrationTarget> targets;
  int ranks = 1;  // of this machine
  double seconds = 20;
  bool grid = true;
  NvmeOptions nvme;    // the disk to measure
  CopyCaps copy_caps;  // see CalibrateOptions
  bool show_progress =
      true;  // on stderr: a line that is rewritten on a terminal, else one a second
  std::function<bool()> stop;  // may be null
};

// Measures this machine's CPU or GPU. Errors: those of Calibrate.
Result<DeviceProfile> CalibrateThisMachine(const CalibrationRequest& request);

// Writes the profile to `path`, making its folder, so that a reader finds the old or the new one.
Result<void> WriteProfile(const std::string& path, const DeviceProfile& profile);

// Rates, times and their spread, alone and together, for people.
std::string ProfileText(const DeviceProfile& profile);

// "2026-11-20T14:05:09Z" of nanoseconds since 1970.
std::string IsoTime(std::int64_t realtime_ns);

}  // namespace foretrain
