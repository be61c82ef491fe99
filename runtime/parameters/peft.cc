#include "runtime/parameters/peft.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/io/new_folder.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/parameters/file_tensors.h"
#include "runtime/parameters/model_tensors.h"
#include "runtime/parameters/weight_files.h"
#include "sim/config/model/import/write_config.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxConfigBytes = kMiB;
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

// Fields that change what an adapter computes. Those that concern initial values and training alone
// are ignored.
constexpr std::string_view kMustBeFalse[] = {"use_dora", "use_qalora", "lora_bias", "use_bdlora"};
constexpr std::string_view kMustBeEmpty[] = {"alpha_pattern",     "modules_to_save",
                                             "layer_replication", "trainable_token_indices",
                                             "target_parameters", "alora_invocation_tokens"};

struct PeftConfig {
  double alpha = 0;
  bool by_root = false;  // scale alpha / sqrt(r) in place of alpha / r
};

Result<PeftConfig> ParseConfig(std::string_view text, const std::string& path) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, path));
  JsonFields fields(value, path);
  const auto refuse = [&](std::string_view field, std::string_view why) {
    return Fail(ErrorCode::kUnsupported, fmt::format("{}: {}: {}", path, field, why));
  };
  const std::string type = fields.String("peft_type");
  PeftConfig config;
  config.alpha = fields.Number("lora_alpha", 0, 1e9);
  config.by_root = fields.BoolOr("use_rslora", false);
  const std::string bias = fields.StringOr("bias", "none");
  std::string_view wrong;
  for (const std::string_view field : kMustBeFalse) {
    if (fields.BoolOr(field, false)) wrong = field;
  }
  for (const std::string_view field : kMustBeEmpty) {
    const JsonValue* const given = fields.Any(field);
    if (given != nullptr && !given->is_null() && !given->items().empty()) wrong = field;
  }
  FT_TRY(fields.Finish(/*ignore_unknown=*/true));
  if (type != "LORA") {
    return refuse("peft_type", "must be LORA: other kinds of adapters are not supported");
  }
  if (bias != "none") return refuse("bias", "must be \"none\": trained biases are not supported");
  if (!wrong.empty()) {
    return refuse(wrong, "is not supported; merge the adapters with PEFT's merge_and_unload");
  }
  return config;
}

// The module of PEFT that adapts a weight: its name without ".weight".
std::string ModuleOf(const FileTensor& at) {
  constexpr std::string_view kWeight = ".weight";
  if (!at.name.ends_with(kWeight) || at.stacked) return {};
  return at.name.substr(0, at.name.size() - kWeight.size());
}

// All numbers of a tensor of `rows` rows or more and `cols` columns.
Result<std::vector<float>> ReadFactor(const WeightFiles& files, const std::string& name,
                                      std::int64_t rows, std::int64_t cols) {
  const SafetensorEntry* const entry = files.Find(name);
  if (entry == nullptr || entry->rows < rows || entry->cols != cols) {
    return Fail(
        ErrorCode::kInvalidArgument,
        entry == nullptr
            ? files.path() + ": has no tensor " + Printable(name, 200)
            : fmt::format("{}: {} is {} x {} and the model's adapter has {} x {}", files.path(),
                          Printable(name, 200), entry->rows, entry->cols, rows, cols));
  }
  FT_ASSIGN(const TensorRows all, files.Rows(name, 0, entry->rows));
  std::vector<float> numbers(static_cast<std::size_t>(entry->rows * entry->cols));
  all.Read(0, numbers);
  return numbers;
}

// The adapter of one weight. A joined weight's A serves all its parts, and its B has their rows.
Result<std::optional<LowRank>> ReadAdapter(const WeightFiles& files, const PeftConfig& config,
                                           const ParameterPlace& weight, const FileTensor& at) {
  const std::string module = ModuleOf(at);
  const std::string name = std::string(kPrefix) + module;
  const SafetensorEntry* const a = module.empty() ? nullptr : files.Find(name + std::string(kA));
  if (a == nullptr) return std::optional<LowRank>();
  LowRank change;
  change.rank = a->rows;
  const auto rank = static_cast<double>(change.rank);
  change.scale = config.alpha / (config.by_root ? std::sqrt(rank) : rank);
  FT_ASSIGN(change.a, ReadFactor(files, name + std::string(kA), a->rows, weight.cols));
  FT_ASSIGN(const std::vector<float> b,
            ReadFactor(files, name + std::string(kB), at.Row(weight.rows - 1) + 1, change.rank));
  change.b.reserve(static_cast<std::size_t>(weight.rows * change.rank));
  for (std::int64_t row = 0; row < weight.rows; ++row) {
    const auto from = b.begin() + at.Row(row) * change.rank;
    change.b.insert(change.b.end(), from, from + change.rank);
  }
  return std::optional(std::move(change));
}

std::string ConfigText(const Plan& plan, const std::set<std::string>& modules, bool transposed,
                       const std::string& base) {
  JsonWriter json(2);
  json.BeginObject().Field("peft_type", "LORA").Field("task_type", "CAUSAL_LM");
  json.Name("base_model_name_or_path");
  base.empty() ? json.Null() : json.String(base);
  json.Field("r", plan.lora_rank).Field("lora_alpha", plan.lora_alpha);
  json.Field("lora_dropout", 0.0).Field("bias", "none").Field("fan_in_fan_out", transposed);
  json.Field("inference_mode", true).Name("target_modules").BeginArray();
  for (const std::string& module : modules) json.String(module);
  return json.EndArray().EndObject().Take() + "\n";
}

}  // namespace

Result<AdapterOf> OpenAdapters(FileSystem& files, const std::string& folder, const ModelSpec& model,
                               const TensorNames& names) {
  const std::string path = folder + "/" + std::string(kAdapterConfigName);
  FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxConfigBytes));
  FT_ASSIGN(const PeftConfig config, ParseConfig(text, path));
  FT_ASSIGN(auto opened, WeightFiles::Open(files, folder + "/" + std::string(kAdapterWeightsName)));
  const std::shared_ptr<const WeightFiles> weights = std::move(opened);  // shared by copies
  const TensorNames loaded = names.Loaded();
  std::set<std::string> used;
  for (const ParameterPlace& place : TensorsOf(model)) {
    FT_ASSIGN(const auto adapter, ReadAdapter(*weights, config, place, loaded.For(place)));
    if (!adapter) continue;
    const std::string module = std::string(kPrefix) + ModuleOf(loaded.For(place));
    used.insert({module + std::string(kA), module + std::string(kB)});
  }
  for (const std::string& name : weights->Names()) {
    if (used.contains(name)) continue;
    return Fail(ErrorCode::kInvalidArgument, weights->path() + ": " + Printable(name, 200) +
                                                 " adapts no linear of the model " +
                                                 Printable(model.name));
  }
  return AdapterOf([weights, config, loaded](const ParameterPlace& weight) {
    return ReadAdapter(*weights, config, weight, loaded.For(weight));
  });
}

Result<WrittenWeights> WriteAdapters(FileSystem& files, const std::string& folder,
                                     const ModelSpec& model, const TensorSource& source,
                                     const Plan& plan, const AdapterWriterOptions& options) {
  FT_ASSIGN(const DtypeNames dtype, DtypeNamesOf(options.format));
  FT_ASSIGN(const HuggingFaceConfig config, ConfigOf(model, options.model_type, dtype.config));
  FT_ASSIGN(const TensorNames names, TensorNames::OfType(config.model_type, model));
  const std::vector<ParameterPlace> tensors = TensorsOf(model, plan);
  std::map<std::string, ParameterPlace> by_name;
  for (const ParameterPlace& place : tensors) by_name[place.name] = place;
  std::vector<GatheredTensor::Part> parts;
  std::set<std::string> modules, ends;
  for (const ParameterPlace& place : tensors) {
    if (!place.name.ends_with(kA)) continue;
    for (const ParameterPlace& weight : WeightsThatShare(place.name, tensors)) {
      FileTensor at = names.For(weight);
      const std::string module = ModuleOf(at);
      if (modules.insert(module).second) {
        ends.insert(module.substr(module.rfind('.') + 1));
        parts.push_back({place, {.name = std::string(kPrefix) + module + std::string(kA)}});
      }
      at.name = std::string(kPrefix) + module + std::string(kB);
      at.transposed = false;
      const std::string stem = weight.name.substr(0, weight.name.rfind('.'));
      parts.push_back({by_name.at(stem + std::string(kB)), std::move(at)});
    }
  }
  FT_ASSIGN(const auto gathered, GatherFileTensors(std::move(parts), 0, dtype.safetensors));
  FT_TRY(CreateFolder(files, folder, [&](const std::string& to) -> Result<void> {
    FT_TRY(WriteTensorFile(files, to + "/" + std::string(kAdapterWeightsName), gathered, source));
    return WriteNewFile(files, to + "/" + std::string(kAdapterConfigName),
                        ConfigText(plan, ends, names.transposes(), options.base));
  }));
  WrittenWeights written{config.model_type, std::ssize(gathered), 0, /*files=*/1};
  for (const GatheredTensor& one : gathered) written.bytes += one.tensor.bytes();
  return written;
}

}  // namespace foretrain
