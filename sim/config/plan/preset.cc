#include "sim/config/plan/preset.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/embedded.h"
#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/plan/plan_json.h"
#include "sim/config/plan/plan_values.h"
#include "sim/config/rules/refuse.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

// SystemOptions::framework_overhead of a preset that states none: PyTorch with the kernels of
// Megatron-LM, Transformer Engine or FlashAttention, from docs/validation.md.
constexpr double kFrameworkOverhead = 0.07;
// PyTorch's CUDA semantics, "cuBLAS workspaces": 32 MiB per handle and stream on Hopper, less on
// earlier devices.
constexpr std::int64_t kFrameworkWorkspaceBytes = std::int64_t{32} << 20;
constexpr std::array<std::string_view, 5> kAxes = {"dp", "cp", "tp", "pp", "ep"};

const PlanField* Axis(std::size_t index) { return &PlanFieldOf(kAxes[index]); }

// Reads further values of an option: names for a choice, lists of names for a set ("norm,mlp"),
// else integers.
std::vector<std::int64_t> ReadAlso(JsonFields& fields, const PlanField& field) {
  if (field.type == PlanFieldType::kNames) {
    std::vector<std::int64_t> sets;
    for (const std::string& names : fields.StringsOr("also")) {
      const auto set = ParsePlanValues(field, names);
      if (!set.has_value()) {
        fields.Refuse("also", set.error().message);
        return {};
      }
      sets.insert(sets.end(), set->begin(), set->end());
    }
    return sets;
  }
  if (field.type != PlanFieldType::kChoice) return fields.IntegersOr("also", field.low, field.high);
  std::vector<std::int64_t> values;
  for (const std::string& name : fields.StringsOr("also")) {
    const auto found = std::find(field.choices.begin(), field.choices.end(), name);
    if (found == field.choices.end()) {
      fields.Refuse("also", fmt::format("\"{}\" is no {}{}", Printable(name), field.name,
                                        DidYouMean(name, field.choices)));
      return {};
    }
    values.push_back(found - field.choices.begin());
  }
  return values;
}

// Reads one option: a value, other values of the same system, the axis it needs, and its source.
PresetOption ReadOption(JsonFields& fields, const PlanField& field, Plan& plan) {
  PresetOption option{&field, ReadAlso(fields, field), nullptr, fields.String("source")};
  if (!fields.Has("value")) fields.Refuse("value", "is missing; give the option's value");
  ReadPlanField(fields, "value", field, plan);
  if (fields.Has("needs")) option.needs = Axis(fields.Choice("needs", kAxes));
  return option;
}

std::vector<std::string_view> PlanFieldNames() {
  std::vector<std::string_view> names;
  for (const PlanField& field : PlanFields()) names.push_back(field.name);
  return names;
}

bool Contains(std::span<const PlanField* const> fields, const PlanField* field) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

// True if a plan with these options can cut `model` into `degree` parts along the axis.
bool CanCut(const ModelSpec& model, const Plan& options, const PlanField& axis,
            std::int64_t degree) {
  if (axis.name == "tp") {
    return model.heads % degree == 0 && model.kv_heads % degree == 0 &&
           model.ffn_hidden % degree == 0;
  }
  if (axis.name == "pp") return degree * options.Chunks() <= model.AllLayers();
  if (axis.name == "cp") {
    return options.cp_kind != ContextParallelKind::kAllToAll || model.kv_heads % degree == 0;
  }
  return axis.name != "ep";
}

// Prime factors of `count`, the largest first.
std::vector<int> PrimeFactors(int count) {
  std::vector<int> factors;
  for (int prime = 2; prime * prime <= count; ++prime) {
    for (; count % prime == 0; count /= prime) factors.push_back(prime);
  }
  if (count > 1) factors.push_back(count);
  std::reverse(factors.begin(), factors.end());
  return factors;
}

}  // namespace

bool Preset::Has(const PlanField& axis) const { return Contains(axes, &axis); }

// Options are stored as fields of `plan`, so that ApplyPreset can copy them by member pointer.
Result<Preset> PresetFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  Preset preset;
  preset.name = fields.String("name", 64);
  preset.aliases = fields.StringsOr("aliases", 64);
  preset.title = fields.String("title");
  for (const std::string& name : fields.Strings("axes")) {
    const auto found = std::find(kAxes.begin(), kAxes.end(), name);
    if (found == kAxes.end()) {
      fields.Refuse("axes",
                    fmt::format("\"{}\" is none of {}", Printable(name), fmt::join(kAxes, ", ")));
      break;
    }
    preset.axes.push_back(Axis(static_cast<std::size_t>(found - kAxes.begin())));
  }
  preset.omits = fields.StringsOr("omits");
  JsonFields options = fields.Object("options");
  for (const std::string& name : options.names()) {
    const PlanField* field = FindPlanField(name);
    if (field == nullptr) {
      options.Refuse(name, "is no field of a plan" + DidYouMean(name, PlanFieldNames()));
      break;
    }
    JsonFields option = options.Object(name);
    preset.options.push_back(ReadOption(option, *field, preset.plan));
    FT_TRY(option.Finish());
  }
  FT_TRY(options.Finish());
  preset.system.caching_allocator = true;
  preset.system.framework_overhead = kFrameworkOverhead;
  preset.system.profiled = false;
  preset.system.workspace_bytes = kFrameworkWorkspaceBytes;
  if (std::optional<JsonFields> system = fields.ObjectOr("system")) {
    preset.system_sources = ReadSystemOptions(*system, preset.system);
    FT_TRY(system->Finish());
  }
  FT_TRY(fields.Finish());
  return preset;
}

// Presets are embedded files; sorting by name makes their order independent of the build.
Result<std::vector<Preset>> BuiltInPresets() {
  std::vector<Preset> presets;
  for (const EmbeddedFile& file : sim_data::Files()) {
    if (!file.path.starts_with("sim/config/presets/")) continue;
    FT_ASSIGN(Preset preset, PresetFromJson(file.text, file.path));
    presets.push_back(std::move(preset));
  }
  std::sort(presets.begin(), presets.end(),
            [](const Preset& a, const Preset& b) { return a.name < b.name; });
  return presets;
}

// Matches names and aliases in lower case; the error suggests the nearest one.
Result<Preset> FindPreset(std::span<const Preset> presets, std::string_view name) {
  const std::string lower = ToLower(Trim(name));
  std::vector<std::string_view> names;
  for (const Preset& preset : presets) {
    if (preset.name == lower) return preset;
    names.push_back(preset.name);
    for (const std::string& alias : preset.aliases) {
      if (alias == lower) return preset;
      names.push_back(alias);
    }
  }
  const std::string hint = DidYouMean(lower, names);
  return Refuse("--preset: \"{}\" is no preset{} `foretrain presets` lists all", Printable(name),
                hint.empty() ? "." : hint);
}

// Copies the preset's options except fields that the user has set (`kept`).
void ApplyPreset(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan) {
  for (const PresetOption& option : preset.options) {
    if (!Contains(kept, option.field)) CopyField(*option.field, preset.plan, plan);
  }
  DropUnmetOptions(preset, kept, plan);
}

// An option that needs a degree above 1 has no effect without it; its default keeps the plan valid.
void DropUnmetOptions(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan) {
  const Plan standard;
  for (const PresetOption& option : preset.options) {
    if (option.needs == nullptr || option.needs->get(plan) > 1) continue;
    if (!Contains(kept, option.field)) CopyField(*option.field, standard, plan);
  }
  // Modules are those of selective recomputation.
  const PlanField& modules = PlanFieldOf("recompute_modules");
  if (plan.recompute != RecomputeKind::kSelective && !Contains(kept, &modules)) {
    CopyField(modules, standard, plan);
  }
}

// Only fields that neither the user nor the preset's options have set. With fp32 activations,
// formats stay at their defaults.
void ApplyFormats(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan) {
  if (!plan.HasShortActivations()) return;
  const auto open = [&](std::string_view name) {
    const PlanField* field = &PlanFieldOf(name);
    return !Contains(kept, field) &&
           std::none_of(preset.options.begin(), preset.options.end(),
                        [field](const PresetOption& option) { return option.field == field; });
  };
  // Parameters off the device are their own masters, so they are fp32.
  const bool offloaded = plan.offload_parameters != OffloadTarget::kNone;
  if (open("weights")) plan.weights = offloaded ? WeightStorage::kFp32 : preset.system.weights;
  if (open("gradients")) plan.gradients = preset.system.gradients;
}

// Kernels that overlap tensor parallelism need no tiles for it.
void ApplySoftware(const Preset& preset, std::span<const PlanField* const> kept, Plan& plan) {
  const auto is_open = [&](std::string_view name) { return !Contains(kept, &PlanFieldOf(name)); };
  if (preset.system.tp_overlap > 0 && is_open("tp_tiles")) plan.tp_tiles = 1;
  const bool once = preset.system.pipeline_gathers_once && plan.pp > 1 && plan.zero_stage == 3;
  if (once && is_open("zero_stage")) plan.zero_stage = 1;
}

// Prime factors go to the axes in turn, so that degrees grow evenly. Each axis refuses a factor
// that would not divide the model.
void SpreadRanks(const Preset& preset, const ModelSpec& model, int ranks,
                 std::span<const PlanField* const> kept, Plan& plan) {
  const int taken = plan.World();
  if (ranks % taken != 0) return;
  Plan options = preset.plan;
  for (const PlanField* field : kept) CopyField(*field, plan, options);
  const PlanField& dp = PlanFieldOf("dp");
  std::size_t turn = 0;
  for (const int factor : PrimeFactors(ranks / taken)) {
    const PlanField* taker = &dp;
    for (std::size_t tried = 0; tried < preset.axes.size(); ++tried) {
      const PlanField* axis = preset.axes[turn++ % preset.axes.size()];
      if (Contains(kept, axis) || !CanCut(model, options, *axis, axis->get(plan) * factor)) {
        continue;
      }
      taker = axis;
      break;
    }
    taker->set(plan, taker->get(plan) * factor);
  }
  const PlanField& ep = PlanFieldOf("ep");
  if (!preset.Has(ep) || Contains(kept, &ep) || model.experts == 0) return;
  ep.set(plan, std::gcd(std::int64_t{plan.dp} * plan.cp, model.experts));
}

}  // namespace foretrain
