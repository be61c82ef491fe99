#include "sim/config/model/import/write_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <variant>
#include <vector>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/model/import/families.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/model_json.h"

namespace foretrain {
namespace {

std::string_view ActivationName(MlpKind mlp) {
  switch (mlp) {
    case MlpKind::kGelu:
      return "gelu_new";
    case MlpKind::kGeluErf:
      return "gelu";
    case MlpKind::kRelu:
      return "relu";
    case MlpKind::kSquaredRelu:
      return "relu2";
    case MlpKind::kSwiglu:
    case MlpKind::kClampedSwiglu:
      return "silu";
    case MlpKind::kGeglu:
      return "gelu_pytorch_tanh";
  }
  return "";
}

// Versions 4 and 5 of the library read these two fields. Version 5 writes rope_parameters.
void WriteRope(JsonWriter& json, const ModelSpec& model) {
  json.Field("rope_theta", model.rope_theta);
  if (model.rotary_dim > 0) {
    json.Field("partial_rotary_factor",
               static_cast<double>(model.rotary_dim) / static_cast<double>(model.head_dim));
  }
  const RopeScaling scaling = model.rope_scaling;
  if (scaling != RopeScaling::kLinear && scaling != RopeScaling::kLlama3 &&
      scaling != RopeScaling::kYarn) {
    return;
  }
  json.Name("rope_scaling").BeginObject().Field("rope_type", Name(scaling));
  json.Field("factor", model.rope_factor);
  json.Field("original_max_position_embeddings", model.rope_original);
  if (scaling == RopeScaling::kLlama3) {
    json.Field("low_freq_factor", model.rope_low).Field("high_freq_factor", model.rope_high);
  }
  if (scaling == RopeScaling::kYarn) {
    json.Field("beta_slow", model.rope_low).Field("beta_fast", model.rope_high);
    json.Field("truncate", model.rope_whole_pairs);
    json.Field("attention_factor", model.rope_magnitude);
    // DeepSeek scales scores by the square of 0.1 mscale_all_dim ln(factor) + 1.
    if (model.IsLatent() && model.attention_scale > 0 && model.rope_factor > 1) {
      const double root =
          std::sqrt(model.attention_scale * std::sqrt(static_cast<double>(model.head_dim)));
      const double scale = (root - 1) / (0.1 * std::log(model.rope_factor));
      json.Field("mscale", scale).Field("mscale_all_dim", scale);
    }
  }
  json.EndObject();
}

void WriteWindow(JsonWriter& json, const ModelSpec& model) {
  json.Name("sliding_window");
  model.attention_window > 0 ? json.Integer(model.attention_window) : json.Null();
}

void WriteLayerTypes(JsonWriter& json, const ModelSpec& model) {
  json.Name("layer_types").BeginArray();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const bool full = model.attention_window == 0 || model.IsGlobal(layer);
    json.String(full ? "full_attention" : "sliding_attention");
  }
  json.EndArray();
}

// Families whose field must be a number: a window as long as any sequence is none.
void WriteNeededWindow(JsonWriter& json, const ModelSpec& model) {
  json.Field("sliding_window",
             model.attention_window > 0 ? model.attention_window : model.max_sequence);
  WriteLayerTypes(json, model);
}

void WriteQwenWindow(JsonWriter& json, const ModelSpec& model) {
  json.Field("use_sliding_window", model.attention_window > 0);
  if (model.attention_window == 0) return;
  json.Field("sliding_window", model.attention_window).Field("max_window_layers", 0);
  WriteLayerTypes(json, model);
}

// The library's balance loss is experts_per_token times ours.
void WriteExperts(JsonWriter& json, const ModelSpec& model, std::string_view experts) {
  json.Field(experts, model.experts).Field("num_experts_per_tok", model.experts_per_token);
  const auto chosen = static_cast<double>(std::max<std::int64_t>(1, model.experts_per_token));
  json.Field("router_aux_loss_coef", model.balance_weight / chosen);
}

void WriteQwenExperts(JsonWriter& json, const ModelSpec& model) {
  WriteExperts(json, model, "num_experts");
  json.Field("moe_intermediate_size", model.expert_ffn_hidden);
  json.Field("norm_topk_prob", model.router == RouterKind::kTopKSoftmax);
  json.Field("decoder_sparse_step", 1).Name("mlp_only_layers").BeginArray().EndArray();
}

void WriteLlama(JsonWriter& json, const ModelSpec& model) {
  json.Field("attention_bias", model.attention_bias).Field("mlp_bias", model.mlp_bias);
}

void WriteMixtral(JsonWriter& json, const ModelSpec& model) {
  WriteWindow(json, model);
  WriteExperts(json, model, "num_local_experts");
}

void WriteQwen2Moe(JsonWriter& json, const ModelSpec& model) {
  WriteQwenWindow(json, model);
  WriteQwenExperts(json, model);
  json.Field("qkv_bias", model.attention_bias);
  json.Field("shared_expert_intermediate_size", model.shared_ffn_hidden);
}

void WriteQwen3(JsonWriter& json, const ModelSpec& model) {
  json.Field("attention_bias", model.attention_bias);
  WriteQwenWindow(json, model);
}

void WriteQwen3Moe(JsonWriter& json, const ModelSpec& model) {
  WriteQwen3(json, model);
  WriteQwenExperts(json, model);
}

void WriteGemma(JsonWriter& json, const ModelSpec& model) {
  json.Field("attention_bias", model.attention_bias);
  json.Field("hidden_act", ActivationName(model.mlp));
}

void WriteGemma2(JsonWriter& json, const ModelSpec& model) {
  WriteGemma(json, model);
  const double scale = model.attention_scale;
  const std::int64_t scalar =
      scale > 0 ? static_cast<std::int64_t>(std::llround(1 / (scale * scale))) : model.head_dim;
  json.Field("query_pre_attn_scalar", scalar);
  for (const auto& [field, cap] : {std::pair{"attn_logit_softcapping", model.attention_softcap},
                                   {"final_logit_softcapping", model.logit_softcap}}) {
    json.Name(field);
    cap > 0 ? json.Number(cap) : json.Null();
  }
  WriteNeededWindow(json, model);
}

void WriteGemma3(JsonWriter& json, const ModelSpec& model) {
  WriteGemma2(json, model);
  const double local = model.local_rope_theta;
  json.Field("rope_local_base_freq", local > 0 ? local : model.rope_theta);
}

// Both versions of DeepSeek.
void WriteDeepSeek(JsonWriter& json, const ModelSpec& model) {
  json.Name("q_lora_rank");
  model.query_rank > 0 ? json.Integer(model.query_rank) : json.Null();
  json.Field("kv_lora_rank", model.key_value_rank).Field("qk_rope_head_dim", model.rope_head_dim);
  json.Field("qk_nope_head_dim", model.head_dim - model.rope_head_dim);
  json.Field("v_head_dim", model.value_head_dim);
  WriteExperts(json, model, "n_routed_experts");
  const std::int64_t width = std::max<std::int64_t>(1, model.expert_ffn_hidden);
  json.Field("moe_intermediate_size", width);
  json.Field("n_shared_experts", model.shared_ffn_hidden / width);
  json.Field("first_k_dense_replace", model.first_dense_layers).Field("moe_layer_freq", 1);
  json.Field("routed_scaling_factor", model.expert_scale);
  json.Field("n_group", std::max<std::int64_t>(1, model.expert_groups));
  json.Field("topk_group", std::max<std::int64_t>(1, model.groups_per_token));
}

void WriteDeepSeekV2(JsonWriter& json, const ModelSpec& model) {
  WriteDeepSeek(json, model);
  json.Field("topk_method", model.expert_groups > 0 ? "group_limited_greedy" : "greedy");
  json.Field("norm_topk_prob", model.router == RouterKind::kTopKSoftmax);
}

void WriteDeepSeekV3(JsonWriter& json, const ModelSpec& model) {
  WriteDeepSeek(json, model);
  json.Field("norm_topk_prob", true).Field("scoring_func", "sigmoid");
  json.Field("topk_method", "noaux_tc").Field("num_nextn_predict_layers", model.predict_ahead);
}

void WriteGptOss(JsonWriter& json, const ModelSpec& model) {
  WriteExperts(json, model, "num_local_experts");
  json.Field("attention_bias", model.attention_bias).Field("swiglu_limit", 7.0);
  WriteNeededWindow(json, model);
}

// The order is that in which a family is chosen for a model: those with fewer special parts first.
struct Writer {
  std::string_view type;
  std::string_view architecture;
  void (*more)(JsonWriter& json, const ModelSpec& model);
};
constexpr std::array kWriters = {
    Writer{"gpt2", "GPT2LMHeadModel", nullptr},
    Writer{"llama", "LlamaForCausalLM", WriteLlama},
    Writer{"mistral", "MistralForCausalLM", WriteWindow},
    Writer{"qwen2", "Qwen2ForCausalLM", WriteQwenWindow},
    Writer{"qwen3", "Qwen3ForCausalLM", WriteQwen3},
    Writer{"phi3", "Phi3ForCausalLM", WriteWindow},
    Writer{"gemma", "GemmaForCausalLM", WriteGemma},
    Writer{"gemma2", "Gemma2ForCausalLM", WriteGemma2},
    Writer{"gemma3_text", "Gemma3ForCausalLM", WriteGemma3},
    Writer{"mixtral", "MixtralForCausalLM", WriteMixtral},
    Writer{"qwen2_moe", "Qwen2MoeForCausalLM", WriteQwen2Moe},
    Writer{"qwen3_moe", "Qwen3MoeForCausalLM", WriteQwen3Moe},
    Writer{"deepseek_v2", "DeepseekV2ForCausalLM", WriteDeepSeekV2},
    Writer{"deepseek_v3", "DeepseekV3ForCausalLM", WriteDeepSeekV3},
    Writer{"gpt_oss", "GptOssForCausalLM", WriteGptOss},
};

// Fields that all families have, under the family's names, then its own.
std::string TextOf(const ModelSpec& model, const Family& family, const Writer& writer,
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
    if (!name.empty()) json.Field(name, value);
  }
  if (!names.kv_heads.empty() && !model.IsLatent()) json.Field("head_dim", model.head_dim);
  json.Field(names.epsilon, model.norm_epsilon);
  if (!names.activation.empty()) json.Field(names.activation, ActivationName(model.mlp));
  json.Field("tie_word_embeddings", model.tied_embeddings);
  if (model.positions == PositionKind::kRope) WriteRope(json, model);
  if (writer.more != nullptr) writer.more(json, model);
  for (const char* token : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    json.Name(token).Null();
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

Result<HuggingFaceConfig> Written(const ModelSpec& model, const Writer& writer,
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

void WriteValue(JsonWriter& json, const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      json.Null();
      return;
    case JsonValue::Kind::kBool:
      json.Bool(value.AsBool());
      return;
    case JsonValue::Kind::kInteger:
      json.Integer(value.AsInteger());
      return;
    case JsonValue::Kind::kNumber:
      json.Number(value.AsNumber());
      return;
    case JsonValue::Kind::kString:
      json.String(value.AsString());
      return;
    case JsonValue::Kind::kArray:
      json.BeginArray();
      for (const JsonValue& item : value.items()) WriteValue(json, item);
      json.EndArray();
      return;
    case JsonValue::Kind::kObject:
      json.BeginObject();
      for (std::size_t i = 0; i < value.items().size(); ++i) {
        json.Name(value.names()[i]);
        WriteValue(json, value.items()[i]);
      }
      json.EndObject();
  }
}

}  // namespace

Result<HuggingFaceConfig> ConfigOf(const ModelSpec& model, std::string_view model_type,
                                   std::string_view dtype) {
  std::vector<std::string> types;
  for (const Writer& writer : kWriters) {
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
    WriteValue(json, value.items()[i]);
  }
  return json.Field(name, dtype).EndObject().Take() + "\n";
}

}  // namespace foretrain
