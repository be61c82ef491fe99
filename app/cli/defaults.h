// Values that a forecast takes where neither an option nor a plan file nor a preset gives one, and
// the words that say so.
#pragma once

#include <optional>
#include <string>

#include "app/cli/flags/plan_flags.h"

namespace foretrain {

// Sets --precision to DefaultPrecision of the cluster, unless something gives a precision.
void PreferPrecision(const ClusterSpec& cluster, const std::optional<Preset>& preset,
                     PlanFlags& flags);

// "precision bf16, sequence 8192 (llama3.1-8b is made for 131072), batch 8 samples": the values of
// `plan` that nothing gives. Empty if everything is given.
//
//   given  the options as the user gave them
std::string DefaultsText(const PlanFlags& given, const std::optional<Preset>& preset,
                         const ModelSpec& model, const Plan& plan);

// "4 of 8 devices are used; --dp 8 uses all", or an empty text if the plan uses the whole cluster.
std::string UnusedDevicesText(const Plan& plan, const ClusterSpec& cluster);

}  // namespace foretrain
