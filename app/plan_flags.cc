#include "app/plan_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <thread>

#include "app/hub_cache.h"
#include "base/checked.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/search/default_space.h"
#include "sim/spec/cluster_json.h"
#include "sim/spec/plan_fields.h"
#include "sim/spec/plan_json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxSpecBytes = 16 * kMiB;
constexpr int kFillingMicroBatches = 4;          // micro-batches a stage that keep a pipeline busy

bool LooksLikeFile(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

Result<std::vector<std::int64_t>> ParseChoices(const std::string& option, const std::string& text,
                                               std::span<const std::string_view> choices) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : Split(text, ',')) {
    const auto found = std::find(choices.begin(), choices.end(), ToLower(Trim(part)));
    if (found == choices.end()) {
      constexpr std::size_t kMostShown = 20;
      const auto shown = choices.first(std::min(choices.size(), kMostShown));
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"{}\" is none of {}{}{}", option, Printable(part),
                              fmt::join(shown, ", "), shown.size() < choices.size() ? ", ..." : "",
                              DidYouMean(part, choices)));
    }
    values.push_back(found - choices.begin());
  }
  return values;
}

// The values of a field that holds an integer, however it is written.
Result<std::vector<std::int64_t>> ParseValues(const PlanField& field, const std::string& text) {
  switch (field.type) {
    case PlanFieldType::kChoice:
      return ParseChoices(std::string(FirstOption(field)), text, field.choices);
    case PlanFieldType::kFlag: {
      constexpr std::array<std::string_view, 2> kSwitch = {"off", "on"};
      return ParseChoices(std::string(FirstOption(field)), text, kSwitch);
    }
    case PlanFieldType::kSize: {
      FT_ASSIGN(const std::int64_t bytes, ParseBytes(FirstOption(field), text));
      return std::vector<std::int64_t>{bytes};
    }
    default:
      return ParseIntegerList(std::string(FirstOption(field)), text, {});
  }
}

// Lays the option's text, which has one value, over the plan.
Result<void> Lay(const PlanField& field, const std::string& text, Plan& plan) {
  const std::string option(FirstOption(field));
  if (field.number != nullptr) {
    FT_ASSIGN(plan.*field.number, ParseNumber(option, text, 0, field.most));
    return {};
  }
  FT_ASSIGN(const std::vector<std::int64_t> values, ParseValues(field, text));
  if (field.list != nullptr) {
    (plan.*field.list).assign(values.begin(), values.end());
    return {};
  }
  if (values.size() != 1) {
    return Fail(ErrorCode::kInvalidArgument,
                option + ": \"" + Printable(text) +
                    "\" has several values; this command takes one (`foretrain plan` takes lists)");
  }
  field.set(plan, values.front());
  return {};
}

// Lays all options that were given over the plan.
Result<void> LayGiven(const PlanFlags& flags, Plan& plan) {
  for (const PlanField& field : PlanFields()) {
    if (flags.Given(field.name)) FT_TRY(Lay(field, flags.Text(field.name), plan));
  }
  return {};
}

Result<Plan> ReadPlanFile(const std::string& file) {
  PosixFileSystem files;
  FT_ASSIGN(const std::string text, ReadFile(files, file, kMaxSpecBytes));
  return PlanFromJson(text, file);
}

// What the preset leaves open: its degrees and what it offers several values of.
void ChooseAsPreset(const Preset& preset, const PlanFlags& flags,
                    const std::vector<std::int64_t>& degrees, SearchSpace& space) {
  // What the preset does not name has its default.
  std::erase_if(space.choices, [](const SearchChoice& choice) {
    return choice.field->name != "micro_batch" && choice.field->name != "recompute";
  });
  for (const std::string_view axis : {"dp", "cp", "tp", "pp"}) {
    space.Choose(axis, preset.Has(PlanFieldOf(axis)) ? degrees : std::vector<std::int64_t>{1});
  }
  const Plan standard;
  for (const std::string_view field : {"schedule", "zero_stage"}) {
    space.Choose(field, {PlanFieldOf(field).get(standard)});
  }
  for (const PresetOption& option : preset.options) {
    const PlanField& field = *option.field;
    if (field.get == nullptr) {
      CopyField(field, preset.plan, space.base);
      continue;
    }
    std::vector<std::int64_t> values = {field.get(preset.plan)};
    values.insert(values.end(), option.also.begin(), option.also.end());
    space.Choose(field.name, std::move(values));
  }
  space.complete = [preset, given = flags.GivenFields()](Plan& plan) {
    DropUnmetOptions(preset, given, plan);
    ApplyFormats(preset, given, plan);
  };
}

// The smallest batch that keeps every stage busy with the largest micro-batch.
std::int64_t FillingBatch(std::int64_t dp, std::int64_t pp, std::int64_t micro_batch) {
  return dp * micro_batch * (pp > 1 ? kFillingMicroBatches * pp : 1);
}

}  // namespace

void ModelFlags::Declare(Arguments& arguments) {
  arguments.Section("Model");
  arguments.Option(
      "--model", model, "NAME|FILE",
      "Catalogue name (`foretrain models`), a Hugging Face config.json or a model file");
  arguments.Option("--layers,--num-layers", layers, "N", "Override the number of layers");
  arguments.Option("--hidden,--hidden-size", hidden, "N", "Override the hidden size");
  arguments.Option("--heads,--num-attention-heads", heads, "N", "Override the attention heads");
}

Result<ModelSpec> ModelFlags::Resolve(const Catalogue& catalogue) const {
  std::string text = model;
  std::string origin = "--model";
  if (LooksLikeFile(model)) {
    PosixFileSystem files;
    origin = model;
    const auto info = files.Stat(model);
    const bool missing = info && info->kind == FileKind::kMissing;
    if (missing && LooksLikeHubName(model)) {
      FT_ASSIGN(origin, FindInHubCache(files, HubCacheFolder(), model));
    }
    FT_ASSIGN(text, ReadFile(files, origin, kMaxSpecBytes));
  }
  FT_ASSIGN(ResolvedModel resolved, ResolveModel(text, origin, catalogue));
  ModelSpec& spec = resolved.model;
  if (layers < 0 || hidden < 0 || heads < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "--layers, --hidden and --heads are counts of at least 1");
  }
  if (layers > 0) spec.layers = layers;
  if (heads > 0) {
    spec.kv_heads = spec.kv_heads == spec.heads ? heads : spec.kv_heads;
    spec.heads = heads;
  }
  if (hidden > 0) {
    // The width of the MLP keeps its proportion.
    for (std::int64_t* width :
         {&spec.ffn_hidden, &spec.expert_ffn_hidden, &spec.shared_ffn_hidden}) {
      *width = *width * hidden / spec.hidden;
    }
    spec.hidden = hidden;
  }
  if (hidden > 0 || heads > 0) {
    if (spec.hidden % spec.heads != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--heads: " + std::to_string(spec.heads) + " does not divide the hidden size " +
                      std::to_string(spec.hidden) + "; give a divisor of it");
    }
    spec.head_dim = spec.hidden / spec.heads;
  }
  FT_TRY(ValidateModel(spec));
  return spec;
}

void ClusterFlags::Declare(Arguments& arguments) {
  arguments.Section("Machine");
  arguments.Option("--cluster", cluster, "SPEC",
                   "local, NODESxGPUSxGPU (64x8xA100-80GB-SXM) or a JSON file");
  arguments.Option("--ranks", ranks, "N", "Ranks of a local cluster; 0: one a core");
  arguments.Option("--max-memory", max_memory, "SIZE", "Memory a device may use, e.g. 72GiB");
  arguments.Option("--device-profile", device_profile, "FILE",
                   "Measured rates; default: what `foretrain calibrate` stored for this machine");
  DeclareClusterOptions(arguments, options);
}

void DeclareClusterOptions(Arguments& arguments, ClusterOptions& options) {
  arguments.Option("--nic", options.nic, "NxRATE",
                   "Network adapters of a node and the rate of each, e.g. 8x400Gb");
  arguments.Option("--oversubscription", options.oversubscription, "R[@NODES],...",
                   "Network R times slower beyond units of NODES nodes; without NODES, beyond one");
  arguments.Option("--host-memory", options.host_memory, "SIZE", "Memory of a node, e.g. 1TiB");
  arguments.Option("--cpu-cores", options.cpu_cores, "N", "Cores of a node");
  arguments.Option("--pcie", options.pcie, "GENxLANES", "PCIe of a device, e.g. 4x16");
  arguments.Option("--collectives", options.collectives, "NAME",
                   "Algorithm of collectives between devices: auto, ring, tree, hierarchical, "
                   "in-network, parameter-server");
}

Result<ClusterSpec> ClusterFlags::Resolve(const Catalogue& catalogue) const {
  ClusterSpec spec;
  if (cluster == "local") {
    const Machine machine = ThisMachine();
    if (ranks < 0 || ranks > kMaxRanks) {
      return Fail(ErrorCode::kInvalidArgument, "--ranks: " + std::to_string(ranks) +
                                                   " is outside 0 to " + std::to_string(kMaxRanks) +
                                                   "; 0 takes one a core");
    }
    const int count = ranks > 0 ? static_cast<int>(ranks) : machine.cores;
    FT_ASSIGN(spec, LocalCluster(machine.cores, machine.memory_bytes, count));
    spec.device.name = machine.name;
  } else if (LooksLikeFile(cluster)) {
    PosixFileSystem files;
    FT_ASSIGN(const std::string text, ReadFile(files, cluster, kMaxSpecBytes));
    FT_ASSIGN(spec, ClusterFromJson(text, cluster, catalogue));
  } else {
    FT_ASSIGN(spec, ParseCluster(cluster, catalogue));
  }
  FT_TRY(RefineCluster(options, spec));
  if (!max_memory.empty()) {
    FT_ASSIGN(const std::int64_t bytes, ParseBytes("--max-memory", max_memory));
    spec.device.memory_bytes = std::min(spec.device.memory_bytes, bytes);
  }
  return spec;
}

PlanFlags::PlanFlags() : texts(PlanFields().size(), "auto") {}

std::size_t PlanFlags::IndexOf(std::string_view field) {
  return static_cast<std::size_t>(&PlanFieldOf(field) - PlanFields().data());
}

std::vector<const PlanField*> PlanFlags::GivenFields() const {
  std::vector<const PlanField*> given;
  for (const PlanField& field : PlanFields()) {
    if (Given(field.name)) given.push_back(&field);
  }
  return given;
}

Result<std::optional<Preset>> PlanFlags::ResolvePreset() const {
  if (preset.empty()) return std::nullopt;
  if (!plan_file.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--preset " + Printable(preset) + " beside --plan " + Printable(plan_file) +
                    ": a plan file says everything; give one of the two");
  }
  FT_ASSIGN(const std::vector<Preset> presets, BuiltInPresets());
  FT_ASSIGN(Preset found, FindPreset(presets, preset));
  // Pieces that were asked for stand in the program; the system's own do not hide it once more.
  if (Given("tp_tiles")) found.system.tp_overlap = 0;
  return found;
}

void PlanFlags::Declare(Arguments& arguments) {
  arguments.Section("Plan");
  arguments.Option("--plan", plan_file, "FILE", "Plan file; options given beside it overrule it");
  arguments.Option("--preset", preset, "NAME",
                   "Train as a known system does (`foretrain presets`); options overrule it");
  const auto fields = PlanFields();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string options(fields[i].options);
    std::string help(fields[i].help);
    if (fields[i].type == PlanFieldType::kFlag) {
      arguments.Switch(options, texts[i], help);
    } else {
      arguments.Option(options, texts[i], std::string(fields[i].value_name), help);
    }
  }
}

Result<std::vector<std::int64_t>> ParseIntegerList(const std::string& option,
                                                   const std::string& text,
                                                   const std::vector<std::int64_t>& automatic) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (text == "auto") return automatic;
  std::vector<std::int64_t> list;
  if (const auto dots = text.find(".."); dots != std::string::npos) {
    FT_ASSIGN(const std::int64_t first, ParseInt(option, text.substr(0, dots), 1, kMost));
    FT_ASSIGN(const std::int64_t last, ParseInt(option, text.substr(dots + 2), first, kMost));
    for (std::int64_t value = first; value <= last && list.size() < 64; value *= 2) {
      list.push_back(value);
    }
    return list;
  }
  for (const std::string_view part : Split(text, ',')) {
    FT_ASSIGN(const std::int64_t value, ParseInt(option, Trim(part), 0, kMost));
    list.push_back(value);
  }
  return list;
}

Result<SearchSpace> ChoicesOf(const PlanFlags& flags, const ModelSpec& model,
                              const ClusterSpec& cluster) {
  const int ranks = cluster.Devices();
  std::vector<std::int64_t> divisors;
  for (int d = 1; d <= ranks; ++d) {
    if (ranks % d == 0) divisors.push_back(d);
  }
  Plan base;
  if (!flags.plan_file.empty()) {
    FT_ASSIGN(base, ReadPlanFile(flags.plan_file));
  }
  if (flags.plan_file.empty()) base.precision = DefaultPrecision(cluster);
  base.sequence = DefaultSequence(model);
  if (flags.Given("sequence")) {
    FT_TRY(Lay(PlanFieldOf("sequence"), flags.Text("sequence"), base));
  }
  // Every plan of the search trains the same batch.
  base.global_batch = DefaultBatch(ranks, base.sequence);
  SearchSpace out = DefaultSpace(model, cluster, ranks, base);
  FT_ASSIGN(const std::optional<Preset> preset, flags.ResolvePreset());
  if (preset) {
    ChooseAsPreset(*preset, flags, divisors, out);
    if (!cluster.is_cpu) {
      out.complete = [complete = out.complete, preset = *preset,
                      given = flags.GivenFields()](Plan& plan) {
        complete(plan);
        ApplyKernels(preset, given, plan);
      };
    }
  }
  for (const PlanField& field : PlanFields()) {
    const std::string& text = flags.Text(field.name);
    if (text == "auto") continue;
    // Every plan of a search trains the same batch of the same samples.
    const bool one = field.name == "sequence" || field.name == "global_batch";
    if (one || field.number != nullptr || field.list != nullptr) {
      FT_TRY(Lay(field, text, out.base));
    } else {
      FT_ASSIGN(std::vector<std::int64_t> values, ParseValues(field, text));
      out.Choose(field.name, std::move(values));
    }
  }
  return out;
}

Result<Plan> PlanOf(const PlanFlags& flags, const ModelSpec& model, int ranks) {
  Plan plan;
  const bool from_file = !flags.plan_file.empty();
  if (from_file) {
    FT_ASSIGN(plan, ReadPlanFile(flags.plan_file));
  }
  FT_TRY(LayGiven(flags, plan));
  FT_ASSIGN(const std::optional<Preset> preset, flags.ResolvePreset());
  if (preset) {
    const std::vector<const PlanField*> given = flags.GivenFields();
    SpreadRanks(*preset, model, ranks, given, plan);
    ApplyPreset(*preset, given, plan);
    ApplyFormats(*preset, given, plan);
  }
  if (!from_file) {
    if (!preset && !flags.Given("dp")) {
      const std::int64_t split = std::int64_t{plan.cp} * plan.tp * plan.pp;
      plan.dp =
          static_cast<int>(std::max<std::int64_t>(1, ranks / std::max<std::int64_t>(1, split)));
    }
    if (!flags.Given("sequence")) plan.sequence = DefaultSequence(model);
    if (!flags.Given("micro_batch")) plan.micro_batch = 1;
    if (!flags.Given("global_batch"))
      plan.global_batch = FillingBatch(plan.dp, plan.pp, plan.micro_batch);
  }
  FT_TRY(ValidatePlan(plan, model));
  return plan;
}

std::string CommandLineOf(const ModelFlags& model, const Plan& plan) {
  std::string text = "--model " + model.model;
  const auto add = [&](const char* option, std::int64_t value) {
    if (value != 0) text += std::string(" ") + option + " " + std::to_string(value);
  };
  add("--layers", model.layers);
  add("--hidden", model.hidden);
  add("--heads", model.heads);
  for (const PlanField& field : PlanFields()) {
    // dp is always said, because left out it takes the ranks that are left.
    if (HasDefault(field, plan) && field.name != "dp") continue;
    text.append(" ").append(FirstOption(field));
    if (field.type != PlanFieldType::kFlag) text += " " + TextOf(field, plan);
  }
  return text;
}

Machine ThisMachine() {
  Machine machine;
  machine.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::ifstream memory("/proc/meminfo");
  for (std::string key; memory >> key;) {
    std::int64_t value = 0;
    if (key == "MemTotal:" && memory >> value) machine.memory_bytes = value * kKiB;
  }
  std::ifstream processor("/proc/cpuinfo");
  for (std::string line; std::getline(processor, line);) {
    if (!line.starts_with("model name")) continue;
    machine.name = std::string(Trim(std::string_view(line).substr(line.find(':') + 1)));
    break;
  }
  if (machine.name.empty()) machine.name = "cpu";
  return machine;
}

}  // namespace foretrain
