// How a published system trains: the plan options that reproduce it, each with its source. `omits`
// lists features of the system that a plan has no option for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/system_options.h"

namespace foretrain {

struct PresetOption {
  const PlanField* field = nullptr;
  std::vector<std::int64_t> also;    // other values that the system offers, for a search
  const PlanField* needs = nullptr;  // the option applies if this degree is above 1; NULL: always
  std::string source;
};

struct Preset {
  std::string name;  // lower-case, unique
  std::vector<std::string> aliases;
  std::string title;
  std::vector<const PlanField*> axes;  // degrees that ranks are spread over: dp, cp, tp, pp, ep
  std::vector<PresetOption> options;
  Plan plan;             // a plan with the values of `options`
  SystemOptions system;  // properties of its software that the plan does not cover
  std::vector<SystemOptionSource> system_sources;
  std::vector<std::string> omits;  // features of the system that are not modelled, a sentence each

  bool Has(const PlanField& axis) const;
};

// Parses a preset: an object with name, title, axes and options. Each option is named after a field
// of a plan and has value, source and optionally also (further values) and needs. Optional:
// aliases, system (by SystemOptions field: value, source) and omits. `file` is for messages.
//
// Errors: naming file, field, value and remedy. O(bytes).
Result<Preset> PresetFromJson(std::string_view text, std::string_view file);

// The built-in presets (sim/config/presets/), sorted by name.
Result<std::vector<Preset>> BuiltInPresets();

// Finds a preset by name or alias, ignoring case. Errors: kInvalidArgument with the nearest names.
Result<Preset> FindPreset(std::span<const Preset> presets, std::string_view name);

// Sets the fields of the preset's options, except those in `kept`. An option whose needs the plan's
// degrees do not meet is set to its default.
void ApplyPreset(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// Sets options whose needs are not met to their default; the second half of ApplyPreset.
void DropUnmetOptions(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// Sets the number formats that the preset's system uses in 16-bit plans: storage of weights and
// format of gradients. Offloaded parameters are fp32. Fields in `kept`, and those that an option
// names, stay.
void ApplyFormats(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// Replaces plan options that the system's own software covers on an accelerator. If its products
// hide collectives (`tp_overlap`), the program has no pieces for that. If its pipelines gather
// parameters once a step (`pipeline_gathers_once`), ZeRO-3 becomes ZeRO-1. Fields in `kept` stay.
void ApplySoftware(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// Spreads `ranks` over the preset's axes. Each axis in turn takes a prime factor, the largest
// first, if `model` can be cut that way; dp takes the rest. If ep is an axis, it takes as many
// ranks as share the experts evenly. Degrees in `kept` stay and count as taken. If they do not
// divide `ranks`, nothing changes.
void SpreadRanks(const Preset& preset, const ModelSpec& model, int ranks,
                 std::span<const PlanField* const> kept, Plan& plan);

}  // namespace foretrain
