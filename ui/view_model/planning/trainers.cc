#include "ui/view_model/planning/trainers.h"

#include <algorithm>
#include <utility>

namespace foretrain::ui {

std::vector<std::string> TrainerNames() {
  std::vector<std::string> names;
  const auto frameworks = BuiltInFrameworks();
  if (!frameworks.has_value()) return {std::string(kOwnTrainer)};
  for (const Framework& framework : *frameworks) names.push_back(framework.name);
  if (std::find(names.begin(), names.end(), kOwnTrainer) == names.end()) {
    names.emplace_back(kOwnTrainer);
  }
  return names;
}

// Only the software of a preset counts: its options and axes are the search's.
Result<Trainer> TrainerOf(const std::string& name) {
  FT_ASSIGN(const std::vector<Framework> frameworks, BuiltInFrameworks());
  Trainer trainer;
  FT_ASSIGN(trainer.framework, FindFramework(frameworks, name));
  if (trainer.framework.preset.empty()) return trainer;
  FT_ASSIGN(const std::vector<Preset> presets, BuiltInPresets());
  FT_ASSIGN(Preset preset, FindPreset(presets, trainer.framework.preset));
  preset.options.clear();
  preset.axes.clear();
  trainer.software = std::move(preset);
  return trainer;
}

void ApplyTrainer(const Trainer& trainer, const std::vector<const PlanField*>& given,
                  std::int64_t layers, SearchSpace& space) {
  Framework framework = trainer.framework;
  std::erase_if(framework.values, [&given](const auto& entry) {
    return std::find(given.begin(), given.end(), entry.first) != given.end();
  });
  RestrictTo(framework, layers, space);
  if (!trainer.software.has_value()) return;
  Plan probe = space.base;
  ApplyFormats(*trainer.software, given, probe);
  space.base.weights = probe.weights;
  space.base.gradients = probe.gradients;
}

}  // namespace foretrain::ui
