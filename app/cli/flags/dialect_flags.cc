#include "app/cli/flags/dialect_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/launch/write_launch.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/space/frameworks.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxFiles = 8;  // that a launch file names, in turn
constexpr int kOverlappingTiles = 4;  // of plans whose launch files ask for overlap

// Fields that say what is trained, not how it is split.
constexpr std::array<std::string_view, 18> kTrainingFields = {
    "sequence",  "global_batch", "precision",      "weights",   "gradients",
    "logits",    "attention",    "dropout",        "optimizer", "attention_dropout",
    "moments",   "clip_norm",    "loss_scale",     "method",    "loss_scale_window",
    "lora_rank", "lora_alpha",   "capacity_factor"};

Result<LaunchPart> ReadPart(const Dialect& dialect, const std::string& file) {
  PosixFileSystem files;
  FT_ASSIGN(const std::string bytes,
            ReadFile(files, file, static_cast<std::int64_t>(kMaxLaunchBytes)));
  FT_ASSIGN(LaunchText text, ReadLaunchText(bytes, SyntaxFor(dialect, file), file));
  return LaunchPart{dialect, std::move(text), file};
}

// Beside the file that names it, unless its path is absolute.
std::string BesideFile(const std::string& path, const std::string& file) {
  const std::size_t slash = file.rfind('/');
  if (path.starts_with('/') || slash == std::string::npos) return path;
  return file.substr(0, slash + 1) + path;
}

// The file and those that it names, in turn.
Result<std::vector<LaunchPart>> ReadParts(const std::vector<Dialect>& dialects,
                                          const Dialect& dialect, const std::string& file) {
  std::vector<LaunchPart> parts;
  FT_ASSIGN(LaunchPart first, ReadPart(dialect, file));
  parts.push_back(std::move(first));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const LaunchFileName& named :
         FilesNamedIn(parts[i].dialect, parts[i].text, parts[i].file)) {
      if (parts.size() >= kMaxFiles) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{} line {}: {} names one file too many; at most {} are read",
                                named.file, named.line, named.key, kMaxFiles));
      }
      FT_ASSIGN(const Dialect of, FindDialect(dialects, named.dialect, named.file));
      auto part = ReadPart(of, BesideFile(named.path, named.file));
      if (!part) {
        return Fail(part.error().code,
                    fmt::format("{} line {}: {}: {}; put the file there, or remove the option",
                                named.file, named.line, named.key, part.error().message));
      }
      parts.push_back(*std::move(part));
    }
  }
  return parts;
}

void WriteKeys(JsonWriter& json, const char* name, const std::vector<LaunchKey>& keys,
               const char* note) {
  json.Name(name).BeginArray();
  for (const LaunchKey& key : keys) {
    json.BeginObject().Field("key", key.key).Field("value", key.value);
    json.Field("file", key.file).Field("line", key.line);
    if (note != nullptr) json.Field(note, key.note);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

void DialectFlags::Declare(Arguments& arguments, bool writes) {
  arguments.Section("Launch files of other trainers");
  arguments.Option("--from", from_, "TRAINER:FILE",
                   "Take model, ranks and plan from this launch file (docs/launch-files.md), e.g. "
                   "megatron:run.sh; other options override it");
  arguments.Flag("--strict", strict_,
                 writes ? "With --from: refuse a file with keys that are not modelled; with "
                          "--emit: refuse a plan that the file cannot say"
                        : "With --from: refuse a file with keys that are not modelled");
  if (writes) {
    arguments.Option("--emit", emit_, "TRAINER",
                     "Write the plan as this trainer's launch file, to --out or after the answer");
  }
}

void DialectFlags::DeclareTrainer(Arguments& arguments, const std::string& help) {
  arguments.Option("--for", for_, "NAME", help);
}

Result<void> DialectFlags::Open() {
  if (from_.empty() || !parts_.empty()) return {};
  const std::size_t colon = from_.find(':');
  FT_ASSIGN(dialects_, BuiltInDialects());
  FT_ASSIGN(const Dialect dialect, FindDialect(dialects_, from_.substr(0, colon), "--from"));
  if (colon == std::string::npos || colon + 1 == from_.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--from {}: names no file; give {}:FILE", from_, dialect.name));
  }
  FT_ASSIGN(std::vector<LaunchPart> parts, ReadParts(dialects_, dialect, from_.substr(colon + 1)));
  if (parts.size() == 1) FT_TRY(CheckDialect(parts.front(), dialects_));
  parts_ = std::move(parts);
  return {};
}

Result<void> DialectFlags::Read(LaunchFields fields, ModelFlags& model, ClusterFlags& cluster,
                                PlanFlags& plan) {
  if (from_.empty()) return {};
  FT_TRY(Open());
  const Dialect& dialect = parts_.front().dialect;
  if (!plan.plan_file.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "--from with --plan: a plan file holds every option; give one of the two");
  }
  const bool has_model = model.model != kDefaultModel;
  given_ = plan.GivenFields();
  ReadLaunchOptions options;
  options.strict = strict_;
  options.is_given = [&](std::string_view target) {
    if (target.starts_with("model")) return has_model;
    return FindPlanField(target) != nullptr && plan.Given(target);
  };
  options.devices = [&cluster]() -> Result<std::int64_t> {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    FT_ASSIGN(const ClusterSpec machine, cluster.Resolve(catalogue));
    return std::int64_t{machine.Devices()};
  };
  options.layers = [&](const std::string& name) -> Result<std::int64_t> {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    ModelFlags named = model;
    if (!has_model && !name.empty()) named.model = name;
    FT_ASSIGN(const ModelSpec spec, named.Resolve(catalogue));
    return spec.layers;
  };
  FT_ASSIGN(launch_, ReadLaunch(parts_, dialects_, options));
  const Launch& launch = *launch_;
  if (cluster.cluster == "local" && cluster.ranks == 0) cluster.ranks = launch.ranks;
  model.from = from_;
  if (!has_model && !launch.model.empty()) {
    model.described = launch.model;
  } else if (!has_model && !launch.model_name.empty()) {
    model.model = launch.model_name;
  } else if (!has_model) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: describes no model; give --model", launch.file));
  }
  for (const auto& [name, text] : launch.options) {
    const bool taken =
        fields == LaunchFields::kAll ||
        std::find(kTrainingFields.begin(), kTrainingFields.end(), name) != kTrainingFields.end();
    model.from_fields.push_back(&PlanFieldOf(name));
    if (taken && !plan.Given(name)) plan.Text(name) = text;
  }
  preset_ = dialect.preset;
  framework_ = dialect.framework;
  return {};
}

// Degrees and options are the file's, so the preset keeps none.
Result<std::optional<Preset>> DialectFlags::Software() const {
  if (AsksForOther()) return SoftwareOfTrainer();
  if (preset_.empty()) return std::nullopt;
  const PlanField& tiles = PlanFieldOf("tp_tiles");
  const bool overlaps_tp =
      std::find(given_.begin(), given_.end(), &tiles) == given_.end() &&
      std::any_of(launch_->options.begin(), launch_->options.end(), [](const auto& option) {
        return option.first == "tp_tiles" && option.second != "1";
      });
  FT_ASSIGN(const std::vector<Preset> presets, BuiltInPresets());
  FT_ASSIGN(Preset preset, FindPreset(presets, preset_));
  preset.options.clear();
  preset.axes.clear();
  if (!overlaps_tp) preset.system.tp_overlap = 0;
  return preset;
}

Result<std::optional<Preset>> DialectFlags::SoftwareOfTrainer() const {
  FT_ASSIGN(const std::vector<Framework> frameworks, BuiltInFrameworks());
  FT_ASSIGN(const Framework trainer, FindFramework(frameworks, for_));
  if (trainer.preset.empty()) return std::nullopt;
  FT_ASSIGN(const std::vector<Preset> presets, BuiltInPresets());
  FT_ASSIGN(Preset preset, FindPreset(presets, trainer.preset));
  preset.options.clear();
  preset.axes.clear();
  return preset;
}

std::string DialectFlags::Trainer() const {
  if (for_ != kAnyTrainer || framework_.empty()) return for_;
  return framework_;
}

std::string DialectFlags::ForText() const { return AsksForOther() ? " --for " + for_ : ""; }

std::string DialectFlags::AccountText() const {
  if (!launch_) return "";
  const LaunchAccount& account = launch_->account;
  std::string out =
      fmt::format("from {} ({}): {} keys used, {} without effect on a forecast\n", launch_->file,
                  launch_->title, account.used.size(), account.without_effect.size());
  std::vector<std::string> defaults;
  for (const LaunchKey& key : account.defaults) defaults.push_back(key.key + " " + key.value);
  if (!defaults.empty()) {
    out += fmt::format("  defaults of {}: {}\n", launch_->title, Join(defaults, ", "));
  }
  for (const LaunchKey& key : account.not_modelled) {
    out += fmt::format("  not modelled: {} ({})\n", Printable(key.key), key.note);
  }
  for (const std::string& note : account.notes) out += "  " + note + "\n";
  return out;
}

void DialectFlags::WriteAccount(JsonWriter& json) const {
  if (!launch_) return;
  const LaunchAccount& account = launch_->account;
  json.Name("launch").BeginObject().Field("trainer", launch_->dialect);
  json.Field("file", launch_->file).Field("ranks", launch_->ranks);
  WriteKeys(json, "used", account.used, "option");
  WriteKeys(json, "defaults", account.defaults, "option");
  WriteKeys(json, "without_effect", account.without_effect, nullptr);
  WriteKeys(json, "not_modelled", account.not_modelled, "why");
  json.Field("notes", std::span<const std::string>(account.notes)).EndObject();
}

Result<DialectFlags::Emitted> DialectFlags::Emit(const Plan& plan, const ModelSpec& model,
                                                 const ModelFlags& flags,
                                                 const ClusterSpec& cluster) const {
  Emitted out;
  if (emit_.empty()) return out;
  FT_ASSIGN(const std::vector<Dialect> dialects, BuiltInDialects());
  FT_ASSIGN(const Dialect dialect, FindDialect(dialects, emit_, "--emit"));
  const std::string name = flags.described.empty() ? flags.model : "";
  Plan said = plan;
  std::optional<Preset> software;
  if (AsksForOther()) {
    FT_ASSIGN(software, SoftwareOfTrainer());
    // Tensors as large as what arrives need no option.
    FT_ASSIGN(const std::vector<Framework> frameworks, BuiltInFrameworks());
    FT_ASSIGN(const Framework trainer, FindFramework(frameworks, for_));
    if (said.expert_headroom == trainer.expert_headroom) said.expert_headroom = 0;
  }
  // The software overlaps what a launch file asks for as pieces.
  if (software && software->system.tp_overlap > 0 && plan.tp > 1 && plan.tp_tiles == 1) {
    said.tp_tiles = kOverlappingTiles;
  }
  FT_ASSIGN(const WrittenLaunch written,
            WriteLaunch(dialect, dialects, said, model, name, cluster.devices_per_node));
  out.text = written.text;
  if (written.unsaid.empty()) return out;
  out.unsaid = fmt::format("{} does not say {}", dialect.title, Join(written.unsaid, ", "));
  if (!strict_) return out;
  return Fail(ErrorCode::kUnsupported,
              "--emit " + emit_ + ": " + out.unsaid + "; leave out --strict, or change the plan");
}

void DialectFlags::PrintEmitted(const Emitted& emitted, bool is_in_file) const {
  if (emitted.text.empty()) return;
  if (!emitted.unsaid.empty()) std::printf("\n--emit: %s\n", emitted.unsaid.c_str());
  if (!is_in_file) std::printf("\n%s", emitted.text.c_str());
}

void DialectFlags::WriteEmitted(JsonWriter& json, const Emitted& emitted) const {
  if (emitted.text.empty()) return;
  json.Name("emitted").BeginObject().Field("trainer", emit_).Field("text", emitted.text);
  json.Field("unsaid", emitted.unsaid).EndObject();
}

}  // namespace foretrain
