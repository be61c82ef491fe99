// Options that give a machine and a plan again on the command line. Leaves out reading them:
// app/cli/flags/plan_flags.h.
#pragma once

#include <optional>
#include <string>

#include "app/cli/flags/plan_flags.h"

namespace foretrain {

// " --cluster 64x8xH100 --nic 8x400Gb": the machine options that were given, each with a space
// before it.
std::string MachineOptionsOf(const ClusterFlags& flags);

// "foretrain predict --model ... --cluster ...", or "train" on CPUs: the command that forecasts
// `plan` on `machine` again, with its preset.
std::string CommandOf(const ModelFlags& model, const ClusterFlags& cluster,
                      const std::optional<Preset>& preset, const Plan& plan,
                      const ClusterSpec& machine);

}  // namespace foretrain
