// Options that give a machine and a plan again on the command line. Leaves out reading them:
// app/plan_flags.h.
#pragma once

#include <optional>
#include <string>

#include "app/plan_flags.h"

namespace foretrain {

// " --cluster 64x8xH100 --nic 8x400Gb": what was given of a machine, each with a space before it.
std::string MachineOptionsOf(const ClusterFlags& flags);

// "foretrain predict --model ... --cluster ...", or "train" on CPUs: forecasts `plan` again as it was
// forecast, with the preset that it came of.
std::string CommandOf(const ModelFlags& model, const ClusterFlags& cluster,
                      const std::optional<Preset>& preset, const Plan& plan, bool trains);

}  // namespace foretrain
