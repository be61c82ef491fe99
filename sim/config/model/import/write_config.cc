#include "sim/config/model/import/write_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <variant>
#include <vector>

#include "base/json/json_copy.h"
#include "base/text.h"
#include "sim/config/model/import/config_writers.h"
#include "sim/config/model/import/families.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/model_json.h"

namespace foretrain {
namespace {

// Fields that all families have, under the family's names, then its own.
std::string TextOf(const ModelSpec& model, const Family& family, const ConfigWriter& writer,
                   std::string_view dtype) {
  const FieldNames& names = family.names;
  JsonWriter json(2);
  json.BeginObject().Field("model_type", writer.type);
  json.Name("architectures").BeginArray().String(writer.architecture).EndArray();
  json.Field("torch_dtype", dtype);
  const bool only_experts = model.experts > 0 && model.DenseLayers() == 0;
  for (const auto& [name, value] :
       {std::pair{names.layers, model.layers},
        {names.hidden, model.hidden},
        {names.heads, model.heads},
        {names.kv_heads, model.kv_heads},
        {names.ffn, only_experts ? model.expert_ffn_hidden : model.ffn_hidden},
        {names.max_sequence, model.max_sequence},
        {std::string_view("vocab_size"), model.vocab}}) {
    if (!name.empty()) json.Field(name.substr(0, name.find('|')), value);
  }
  if (!names.kv_heads.empty() && !model.IsLatent()) json.Field("head_dim", model.head_dim);
  json.Field(names.epsilon, model.norm_epsilon);
  if (!names.activation.empty()) json.Field(names.activation, ActivationName(model.mlp));
  json.Field("tie_word_embeddings", model.tied_embeddings);
  if (model.positions == PositionKind::kRope) WriteRope(json, model);
  if (writer.more != nullptr) writer.more(json, model);
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    // The library reads padding for the decoder's first token.
    const bool pads = model.HasEncoder() && std::string_view(token).starts_with("pad");
    json.Name(token);
    pads ? json.Integer(0) : json.Null();
  }
  return json.EndObject().Take() + "\n";
}

// `read` with the values of `model` where a config.json says nothing or where rounding alone
// differs: fields of training, unused widths, a local base that is the global one.
ModelSpec Comparable(ModelSpec read, const ModelSpec& model) {
  read.name = model.name;
  read.z_loss = model.z_loss;
  read.predict_weight = model.predict_weight;
  read.router_bias_rate = model.router_bias_rate;
  read.balance_tokens = model.balance_tokens;
  if (model.experts > 0 && model.DenseLayers() == 0) read.ffn_hidden = model.ffn_hidden;
  if (model.local_rope_theta == 0 && read.local_rope_theta == read.rope_theta) {
    read.local_rope_theta = 0;
  }
  for (const JsonMember<ModelSpec>& member : OptionalModelMembers()) {
    const auto* at = std::get_if<double ModelSpec::*>(&member.at);
    if (at == nullptr) continue;
    const double expected = model.*(*at);
    if (std::fabs(read.*(*at) - expected) <= 1e-12 * std::fabs(expected)) read.*(*at) = expected;
  }
  return read;
}

std::vector<std::string> LinesOf(const ModelSpec& model) {
  std::vector<std::string> lines;
  const std::string text = ToJson(model);
  for (std::string_view line : Split(text, '\n')) {
    line = Trim(line);
    if (line.ends_with(',')) line.remove_suffix(1);
    lines.emplace_back(line);
  }
  return lines;
}

// The first field of `model`, as its JSON says it, that differs in `read`.
std::string FirstDifference(const ModelSpec& model, const ModelSpec& read) {
  const std::vector<std::string> ours = LinesOf(model), theirs = LinesOf(read);
  const std::set<std::string> known(theirs.begin(), theirs.end());
  for (const std::string& line : ours) {
    if (!known.contains(line)) return line;
  }
  const std::set<std::string> asked(ours.begin(), ours.end());
  for (const std::string& line : theirs) {
    if (!asked.contains(line)) return "the opposite of " + line;
  }
  return "the model";
}

const Family* FamilyOf(std::string_view type) {
  for (const Family& family : Families()) {
    if (family.type == type) return &family;
  }
  return nullptr;
}

Result<HuggingFaceConfig> Written(const ModelSpec& model, const ConfigWriter& writer,
                                  std::string_view dtype) {
  const Family* const family = FamilyOf(writer.type);
  FT_CHECK(family != nullptr);
  HuggingFaceConfig config{std::string(writer.type), TextOf(model, *family, writer, dtype)};
  const auto read = ModelFromHuggingFace(config.text, "config.json");
  const auto refuse = [&](const std::string& why) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("model {}: no config.json of model_type {} can express it: {}",
                            Printable(model.name), writer.type, why));
  };
  if (!read.has_value()) return refuse(read.error().message);
  const ModelSpec same = Comparable(read->model, model);
  if (same != model) return refuse(FirstDifference(model, same));
  return config;
}

}  // namespace

Result<HuggingFaceConfig> ConfigOf(const ModelSpec& model, std::string_view model_type,
                                   std::string_view dtype) {
  std::vector<std::string> types;
  for (const ConfigWriter& writer : ConfigWriters()) {
    types.emplace_back(writer.type);
    if (!model_type.empty() && writer.type != model_type) continue;
    auto config = Written(model, writer, dtype);
    if (config.has_value() || !model_type.empty()) return config;
  }
  if (!model_type.empty()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("model_type \"{}\" is not written; those that are: {}",
                            Printable(model_type), Join(types, ", ")));
  }
  return Fail(ErrorCode::kUnsupported,
              fmt::format("model {}: no family of the Hugging Face library has all its parts; name "
                          "the nearest one to see which part it lacks: {}",
                          Printable(model.name), Join(types, ", ")));
}

// The name is torch_dtype in version 4 of the library and dtype in version 5, which reads both.
Result<std::string> WithDtype(std::string_view config, std::string_view dtype) {
  FT_ASSIGN(const JsonValue value, ParseJson(config, "config.json"));
  if (value.kind() != JsonValue::Kind::kObject) {
    return Fail(ErrorCode::kCorruptInput, "config.json: is no object");
  }
  const std::string_view name = value.Find("dtype") != nullptr ? "dtype" : "torch_dtype";
  JsonWriter json(2);
  json.BeginObject();
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    const std::string& field = value.names()[i];
    // Weights are written unquantized.
    if (field == "dtype" || field == "torch_dtype" || field == "quantization_config") continue;
    json.Name(field);
    Write(value.items()[i], json);
  }
  return json.Field(name, dtype).EndObject().Take() + "\n";
}

}  // namespace foretrain
