#include "sim/spec/model_json.h"

#include <array>

#include "base/json.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 2> kNorms = {"layernorm", "rmsnorm"};
constexpr std::array<std::string_view, 2> kMlps = {"gelu", "swiglu"};
constexpr std::array<std::string_view, 2> kPositions = {"learned", "rope"};
constexpr std::array<std::string_view, 2> kRouters = {"topk-softmax", "softmax-topk"};

// hidden / heads, where that is a whole number.
std::int64_t DefaultHeadDim(JsonFields& fields, const ModelSpec& model) {
  if (fields.Has("head_dim") || !fields.ok()) return 0;
  if (model.hidden % model.heads != 0) {
    fields.Refuse("head_dim", fmt::format("is missing, and hidden {} is no multiple of heads {}; "
                                          "give it",
                                          model.hidden, model.heads));
  }
  return model.hidden / model.heads;
}

// All may be left out where there are no experts.
void ReadExperts(JsonFields& fields, ModelSpec& model) {
  const auto count = [&](std::string_view name) {
    return fields.IntegerOr(name, 0, 0, kMaxModelCount);
  };
  model.experts = count("experts");
  model.experts_per_token = count("experts_per_token");
  model.expert_ffn_hidden = count("expert_ffn_hidden");
  model.shared_ffn_hidden = count("shared_ffn_hidden");
  model.first_dense_layers = count("first_dense_layers");
  if (fields.Has("router"))
    model.router = static_cast<RouterKind>(fields.Choice("router", kRouters));
  model.balance_weight = fields.NumberOr("balance_weight", 0, 0, 1e6);
  model.balance_tokens = count("balance_tokens");
  model.expert_groups = count("expert_groups");
  model.groups_per_token = count("groups_per_token");
}

}  // namespace

Result<ModelSpec> ReadModel(JsonFields& fields) {
  ModelSpec model;
  const auto count = [&](std::string_view name) { return fields.Integer(name, 1, kMaxModelCount); };
  model.name = fields.StringOr("name", model.name);
  model.layers = count("layers");
  model.hidden = count("hidden");
  model.heads = count("heads");
  model.kv_heads = fields.IntegerOr("kv_heads", model.heads, 1, kMaxModelCount);
  model.head_dim = fields.IntegerOr("head_dim", DefaultHeadDim(fields, model), 1, kMaxModelCount);
  model.ffn_hidden = count("ffn_hidden");
  model.vocab = count("vocab");
  model.max_sequence = count("max_sequence");
  model.norm = static_cast<NormKind>(fields.Choice("norm", kNorms));
  model.mlp = static_cast<MlpKind>(fields.Choice("mlp", kMlps));
  model.positions = static_cast<PositionKind>(fields.Choice("positions", kPositions));
  model.attention_bias = fields.Bool("attention_bias");
  model.projection_bias = fields.Bool("projection_bias");
  model.tied_embeddings = fields.Bool("tied_embeddings");
  model.rope_theta = fields.NumberOr("rope_theta", model.rope_theta, 0, 1e18);
  model.norm_epsilon = fields.NumberOr("norm_epsilon", model.norm_epsilon, 0, 1);
  model.attention_window = fields.IntegerOr("attention_window", 0, 0, kMaxModelCount);
  model.global_attention_every = fields.IntegerOr("global_attention_every", 0, 0, kMaxModelCount);
  ReadExperts(fields, model);
  FT_TRY(fields.Finish());
  if (const auto valid = ValidateModel(model); !valid) {
    return Refuse("{}: {}", fields.Where(), valid.error().message);
  }
  return model;
}

Result<ModelSpec> ModelFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  return ReadModel(fields);
}

void WriteJson(JsonWriter& writer, const ModelSpec& model) {
  writer.BeginObject()
      .Field("name", model.name)
      .Field("layers", model.layers)
      .Field("hidden", model.hidden)
      .Field("heads", model.heads)
      .Field("kv_heads", model.kv_heads)
      .Field("head_dim", model.head_dim)
      .Field("ffn_hidden", model.ffn_hidden)
      .Field("vocab", model.vocab)
      .Field("max_sequence", model.max_sequence)
      .Field("norm", Name(model.norm))
      .Field("mlp", Name(model.mlp))
      .Field("positions", Name(model.positions))
      .Field("attention_bias", model.attention_bias)
      .Field("projection_bias", model.projection_bias)
      .Field("tied_embeddings", model.tied_embeddings)
      .Field("rope_theta", model.rope_theta)
      .Field("norm_epsilon", model.norm_epsilon)
      .Field("attention_window", model.attention_window);
  if (model.global_attention_every > 0) {
    writer.Field("global_attention_every", model.global_attention_every);
  }
  if (model.experts > 0) {
    writer.Field("experts", model.experts)
        .Field("experts_per_token", model.experts_per_token)
        .Field("expert_ffn_hidden", model.expert_ffn_hidden)
        .Field("shared_ffn_hidden", model.shared_ffn_hidden)
        .Field("first_dense_layers", model.first_dense_layers)
        .Field("router", Name(model.router))
        .Field("balance_weight", model.balance_weight)
        .Field("balance_tokens", model.balance_tokens)
        .Field("expert_groups", model.expert_groups)
        .Field("groups_per_token", model.groups_per_token);
  }
  writer.EndObject();
}

std::string ToJson(const ModelSpec& model) {
  JsonWriter writer(2);
  WriteJson(writer, model);
  return writer.Take();
}

}  // namespace foretrain
