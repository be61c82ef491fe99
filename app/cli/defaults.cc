#include "app/cli/defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

bool IsGiven(const PlanFlags& flags, const std::optional<Preset>& preset, std::string_view name) {
  if (flags.Given(name) || !flags.plan_file.empty()) return true;
  const PlanField& field = PlanFieldOf(name);
  return preset && std::any_of(preset->options.begin(), preset->options.end(),
                               [&](const PresetOption& option) { return option.field == &field; });
}

}  // namespace

void PreferPrecision(const ClusterSpec& cluster, const std::optional<Preset>& preset,
                     PlanFlags& flags) {
  if (IsGiven(flags, preset, "precision")) return;
  flags.Text("precision") = Name(DefaultPrecision(cluster));
}

// In the order in which a reader asks: format, length, batch.
std::string DefaultsText(const PlanFlags& given, const std::optional<Preset>& preset,
                         const ModelSpec& model, const Plan& plan) {
  std::vector<std::string> defaults;
  if (!IsGiven(given, preset, "precision")) {
    defaults.push_back(fmt::format("precision {}", Name(plan.precision)));
  }
  if (!IsGiven(given, preset, "sequence")) {
    const bool cut = model.max_sequence > plan.sequence;
    defaults.push_back(fmt::format(
        "sequence {}{}", plan.sequence,
        cut ? fmt::format(" ({} is made for {})", model.name, model.max_sequence) : ""));
  }
  if (!IsGiven(given, preset, "global_batch")) {
    defaults.push_back(
        fmt::format("batch {} sample{}", plan.global_batch, plan.global_batch == 1 ? "" : "s"));
  }
  return Join(defaults, ", ");
}

// If the plan's ranks divide the devices, dp can take them all.
std::string UnusedDevicesText(const Plan& plan, const ClusterSpec& cluster) {
  const int ranks = plan.World(), devices = cluster.Devices();
  if (ranks >= devices) return "";
  std::string text = fmt::format("{} of {} devices are used", ranks, devices);
  if (devices % ranks == 0) text += fmt::format("; --dp {} uses all", plan.dp * (devices / ranks));
  return text;
}

}  // namespace foretrain
