// How a published system trains: the options of a plan that make it that system, each with its
// source. Leaves out what a system does that a plan has no option for; `omits` names it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/plan_fields.h"
#include "sim/spec/system_options.h"

namespace foretrain {

struct PresetOption {
  const PlanField* field = nullptr;
  std::vector<std::int64_t> also;    // other values that the system offers, for a search
  const PlanField* needs = nullptr;  // the option holds where this degree is above 1; null: always
  std::string source;
};

struct Preset {
  std::string name;  // lower-case, unique
  std::vector<std::string> aliases;
  std::string title;
  std::vector<const PlanField*> axes;  // degrees over which ranks are spread: dp, cp, tp, pp, ep
  std::vector<PresetOption> options;
  Plan plan;             // a plan with the values of `options`
  SystemOptions system;  // what its software does beside the plan
  std::vector<SystemOptionSource> system_sources;
  std::vector<std::string> omits;  // what the system does beside, a sentence each

  bool Has(const PlanField& axis) const;
};

// The preset in `text`: an object with name, title, axes, options (by field of a plan: value,
// source and, where the system offers several, also; needs) and, where there are any, aliases,
// system (by SystemOptions field: value, source) and omits. `file` is for messages.
//
// Errors: naming file, field, value and remedy. O(bytes).
Result<Preset> PresetFromJson(std::string_view text, std::string_view file);

// Those that are part of the program (sim/spec/presets/), by name.
Result<std::vector<Preset>> BuiltInPresets();

// The preset called `name`, or by an alias, in any case. Errors: kInvalidArgument with the nearest
// names.
Result<Preset> FindPreset(std::span<const Preset> presets, std::string_view name);

// Gives the fields of the preset's options, but those in `kept`, their values where the plan's
// degrees meet what the option needs, else the default.
void ApplyPreset(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// The second half of that alone: options whose needs are not met take their default.
void DropUnmetOptions(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// What the preset's system says of a plan's number formats: of 16-bit plans what stands beside the
// weights and in what gradients are summed; parameters that lie off the device are fp32. Fields in
// `kept` stay, and those that an option names.
void ApplyFormats(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// What the system's kernels do in place of the plan's options on an accelerator: pieces that hide
// collectives (`tp_overlap`) are in its products, so that the program has none. Fields in `kept`
// stay.
void ApplyKernels(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan);

// Spreads `ranks` over the preset's axes: each in turn takes a prime factor, the largest first, as
// far as `model` can be cut that way; what none takes goes to dp, and where the preset has experts
// on ranks of their own, ep takes as many as share them evenly. Degrees in `kept` stay and count as
// taken; where they do not divide `ranks`, nothing is spread.
void SpreadRanks(const Preset& preset, const ModelSpec& model, int ranks,
                 std::span<const PlanField* const> kept, Plan& plan);

}  // namespace foretrain
