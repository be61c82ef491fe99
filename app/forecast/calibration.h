// Measuring this machine from the command line: which plans, how it is shown, where it is kept.
// Leaves out how ops are timed: runtime/calibrate/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/cli/flags/plan_flags.h"
#include "runtime/calibrate/calibrate.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// The plans that a small machine is measured for: `base` on one rank and, from two ranks on, split
// over `ranks` by data, tensors and pipeline, each alone. Splits that the model cannot take are
// left out.
std::vector<CalibrationTarget> UsualTargets(const ModelSpec& model, const Plan& base, int ranks);

// The plans that a GPU is measured for: a few layers of models whose GEMMs, attention, norms,
// experts and updates are small, medium and large, in fp32, tf32 and bf16. Errors: those of the
// catalogue.
Result<std::vector<CalibrationTarget>> GpuTargets();

struct CalibrationRequest {
  CalibrateOptions options;             // CalibrateThisMachine adds cluster, names and progress
  const FtDeviceApi* device = nullptr;  // null: the CPU
  std::optional<ClusterSpec> cluster;   // of a GPU; `nullopt`: this machine's cores
  int ranks = 1;                        // of this machine's cores
  bool show_progress = true;            // on stderr
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
