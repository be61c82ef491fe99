#include "app/cli/command_line.h"

#include <utility>

#include "sim/config/plan/plan_fields.h"
#include "sim/search/advice/better_order.h"
#include "sim/search/space/default_space.h"

namespace foretrain {

// The machine's options as given, in the spelling that the command line takes. Defaults are left
// out.
std::string MachineOptionsOf(const ClusterFlags& flags) {
  std::string text;
  const auto add = [&text](const char* option, const std::string& value) {
    if (!value.empty()) text += std::string(" ") + option + " " + value;
  };
  if (flags.cluster != "local") add("--cluster", flags.cluster);
  if (flags.ranks > 0) add("--ranks", std::to_string(flags.ranks));
  add("--max-memory", flags.max_memory);
  add("--device-profile", flags.device_profile);
  const ClusterOptions& o = flags.options;
  for (const auto& [option, value] :
       {std::pair{"--nic", &o.nic}, std::pair{"--oversubscription", &o.oversubscription},
        std::pair{"--host-memory", &o.host_memory}, std::pair{"--cpu-cores", &o.cpu_cores},
        std::pair{"--pcie", &o.pcie}, std::pair{"--collectives", &o.collectives}}) {
    add(option, *value);
  }
  return text;
}

// A preset is written by name, and options only where the plan differs from it. The rank order is
// written where its default is chosen, not fixed.
std::string CommandOf(const ModelFlags& model, const ClusterFlags& cluster,
                      const std::optional<Preset>& preset, const Plan& plan,
                      const ClusterSpec& machine) {
  std::string text = std::string("foretrain ") +
                     (machine.is_cpu ? "train --data FILE " : "predict ") +
                     CommandLineOf(model, plan) + MachineOptionsOf(cluster);
  // `predict` takes a 16-bit format where nothing is said.
  if (plan.precision == Precision::kFp32 && DefaultPrecision(machine) != Precision::kFp32) {
    text += " --precision fp32";
  }
  if (!preset) {
    if (plan.rank_order == 0 && OrdersRanks(machine)) {
      text.append(" --rank-order ").append(NameOfRankOrder(plan.rank_order));
    }
    return text;
  }
  text += " --preset " + preset->name;
  // A default is written only if the preset has another value.
  for (const PresetOption& option : preset->options) {
    const bool said =
        !HasDefault(*option.field, plan) || option.field->type == PlanFieldType::kFlag;
    if (said || TextOf(*option.field, plan) == TextOf(*option.field, preset->plan)) continue;
    text.append(" ").append(FirstOption(*option.field)).append(" ");
    text += TextOf(*option.field, plan);
  }
  return text;
}

}  // namespace foretrain
