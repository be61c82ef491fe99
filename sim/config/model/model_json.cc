#include "sim/config/model/model_json.h"

#include <array>

#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

using Member = JsonMember<ModelSpec>;

// Fields of experts, before and after their router. Every one is optional; without experts all are
// 0.
constexpr std::array kExperts = {
    Member{"experts", &ModelSpec::experts, 0, kMaxModelCount},
    Member{"experts_per_token", &ModelSpec::experts_per_token, 0, kMaxModelCount},
    Member{"expert_ffn_hidden", &ModelSpec::expert_ffn_hidden, 0, kMaxModelCount},
    Member{"shared_ffn_hidden", &ModelSpec::shared_ffn_hidden, 0, kMaxModelCount},
    Member{"first_dense_layers", &ModelSpec::first_dense_layers, 0, kMaxModelCount},
};
constexpr std::array kRouting = {
    Member{"balance_weight", &ModelSpec::balance_weight, 0, 1e6},
    Member{"router_bias_rate", &ModelSpec::router_bias_rate, 0, 1},
    Member{"balance_tokens", &ModelSpec::balance_tokens, 0, kMaxModelCount},
    Member{"expert_groups", &ModelSpec::expert_groups, 0, kMaxModelCount},
    Member{"groups_per_token", &ModelSpec::groups_per_token, 0, kMaxModelCount},
};

// Optional fields. They are written only if they differ from their default.
constexpr std::array kMore = {
    Member{"rotary_dim", &ModelSpec::rotary_dim, 0, kMaxModelCount},
    Member{"unused_positions", &ModelSpec::unused_positions, 0, kMaxModelCount},
    Member{"query_rank", &ModelSpec::query_rank, 0, kMaxModelCount},
    Member{"key_value_rank", &ModelSpec::key_value_rank, 0, kMaxModelCount},
    Member{"rope_head_dim", &ModelSpec::rope_head_dim, 0, kMaxModelCount},
    Member{"value_head_dim", &ModelSpec::value_head_dim, 0, kMaxModelCount},
    Member{"predict_ahead", &ModelSpec::predict_ahead, 0, kMaxModelCount},
    Member{"rope_original", &ModelSpec::rope_original, 0, kMaxModelCount},
    Member{"expert_every", &ModelSpec::expert_every, 1, kMaxModelCount},
    Member{"attention_chunk", &ModelSpec::attention_chunk, 0, kMaxModelCount},
    Member{"query_temperature_floor", &ModelSpec::query_temperature_floor, 0, kMaxModelCount},
    Member{"token_types", &ModelSpec::token_types, 0, kMaxModelCount},
    Member{"encoder_layers", &ModelSpec::encoder_layers, 0, kMaxModelCount},
    Member{"relative_buckets", &ModelSpec::relative_buckets, 0, kMaxModelCount},
    Member{"relative_max_distance", &ModelSpec::relative_max_distance, 1, kMaxModelCount},
    Member{"norm_bias", &ModelSpec::norm_bias},
    Member{"head_bias", &ModelSpec::head_bias},
    Member{"embedding_norm", &ModelSpec::embedding_norm},
    Member{"pre_norms", &ModelSpec::pre_norms},
    Member{"post_norms", &ModelSpec::post_norms},
    Member{"qk_norm", &ModelSpec::qk_norm},
    Member{"qk_norm_whole", &ModelSpec::qk_norm_whole},
    Member{"qk_l2_norm", &ModelSpec::qk_l2_norm},
    Member{"residual_after_norm", &ModelSpec::residual_after_norm},
    Member{"causal", &ModelSpec::causal},
    Member{"head_transform", &ModelSpec::head_transform},
    Member{"weigh_expert_inputs", &ModelSpec::weigh_expert_inputs},
    Member{"rotate_global", &ModelSpec::rotate_global},
    Member{"attention_sinks", &ModelSpec::attention_sinks},
    Member{"router_bias", &ModelSpec::router_bias},
    Member{"expert_bias", &ModelSpec::expert_bias},
    Member{"shared_gate", &ModelSpec::shared_gate},
    Member{"rope_whole_pairs", &ModelSpec::rope_whole_pairs},
    Member{"local_rope_theta", &ModelSpec::local_rope_theta, 0, 1e18},
    Member{"attention_scale", &ModelSpec::attention_scale, 0, 1e18},
    Member{"query_temperature", &ModelSpec::query_temperature, 0, 1e18},
    Member{"attention_softcap", &ModelSpec::attention_softcap, 0, 1e18},
    Member{"qkv_clip", &ModelSpec::qkv_clip, 0, 1e18},
    Member{"logit_softcap", &ModelSpec::logit_softcap, 0, 1e18},
    Member{"logit_scale", &ModelSpec::logit_scale, 0, 1e18},
    Member{"z_loss", &ModelSpec::z_loss, 0, 1e18},
    Member{"embedding_scale", &ModelSpec::embedding_scale, 0, 1e18},
    Member{"expert_scale", &ModelSpec::expert_scale, 0, 1e18},
    Member{"predict_weight", &ModelSpec::predict_weight, 0, 1e18},
    Member{"rope_factor", &ModelSpec::rope_factor, 0, 1e18},
    Member{"rope_low", &ModelSpec::rope_low, 0, 1e18},
    Member{"rope_high", &ModelSpec::rope_high, 0, 1e18},
    Member{"rope_magnitude", &ModelSpec::rope_magnitude, 0, 1e18},
};

template <class Kind, std::size_t kCount>
Kind KindOr(JsonFields& fields, std::string_view name,
            const std::array<std::string_view, kCount>& names, Kind otherwise) {
  return static_cast<Kind>(fields.ChoiceOr(name, static_cast<std::size_t>(otherwise), names));
}

// Reads the optional fields; one that is missing keeps its default.
void ReadMore(JsonFields& fields, ModelSpec& model) {
  ReadMembers(fields, kMore, model);
  model.order = KindOr(fields, "order", kOrderNames, model.order);
  model.attention = KindOr(fields, "attention", kAttentionNames, model.attention);
  model.rope_scaling = KindOr(fields, "rope_scaling", kRopeScalingNames, model.rope_scaling);
}

// Mirror of ReadMore over the same tables, so no field can be written and not read.
void WriteMore(JsonWriter& writer, const ModelSpec& model) {
  const ModelSpec plain;
  for (const Member& member : kMore) {
    const bool plainly = std::visit([&](auto at) { return model.*at == plain.*at; }, member.at);
    if (!plainly) WriteMember(writer, member.name, member, model);
  }
  if (model.order != plain.order) writer.Field("order", Name(model.order));
  if (model.attention != plain.attention) writer.Field("attention", Name(model.attention));
  if (model.rope_scaling != plain.rope_scaling) {
    writer.Field("rope_scaling", Name(model.rope_scaling));
  }
}

// projection_bias sets output_bias and mlp_bias, which may also be given separately.
void ReadBiases(JsonFields& fields, ModelSpec& model) {
  model.attention_bias = fields.Bool("attention_bias");
  if (fields.Has("output_bias") && fields.Has("mlp_bias")) {
    model.output_bias = fields.Bool("output_bias");
    model.mlp_bias = fields.Bool("mlp_bias");
    if (fields.Has("projection_bias")) {
      fields.Refuse("projection_bias", "stands beside output_bias and mlp_bias; remove it");
    }
    return;
  }
  const bool both = fields.Bool("projection_bias");
  model.output_bias = fields.BoolOr("output_bias", both);
  model.mlp_bias = fields.BoolOr("mlp_bias", both);
}

// hidden / heads; refuses a fraction unless head_dim is given.
std::int64_t DefaultHeadDim(JsonFields& fields, const ModelSpec& model) {
  if (fields.Has("head_dim") || !fields.ok()) return 0;
  if (model.hidden % model.heads != 0) {
    fields.Refuse("head_dim", fmt::format("is missing, and hidden {} is no multiple of heads {}; "
                                          "give it",
                                          model.hidden, model.heads));
  }
  return model.hidden / model.heads;
}

void ReadExperts(JsonFields& fields, ModelSpec& model) {
  ReadMembers(fields, kExperts, model);
  if (fields.Has("router"))
    model.router = static_cast<RouterKind>(fields.Choice("router", kRouterNames));
  ReadMembers(fields, kRouting, model);
}

}  // namespace

std::span<const JsonMember<ModelSpec>> OptionalModelMembers() { return kMore; }

// Reads required fields first, because defaults such as head_dim depend on them. A getter that
// fails returns a value in range, so that reading can continue to Finish.
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
  model.norm = static_cast<NormKind>(fields.Choice("norm", kNormNames));
  model.mlp = static_cast<MlpKind>(fields.Choice("mlp", kMlpNames));
  model.positions = static_cast<PositionKind>(fields.Choice("positions", kPositionNames));
  ReadBiases(fields, model);
  model.tied_embeddings = fields.Bool("tied_embeddings");
  model.rope_theta = fields.NumberOr("rope_theta", model.rope_theta, 0, 1e18);
  model.norm_epsilon = fields.NumberOr("norm_epsilon", model.norm_epsilon, 0, 1);
  model.attention_window = fields.IntegerOr("attention_window", 0, 0, kMaxModelCount);
  model.global_attention_every = fields.IntegerOr("global_attention_every", 0, 0, kMaxModelCount);
  ReadExperts(fields, model);
  ReadMore(fields, model);
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

// Core fields are always written; those of experts only if there are any. Reading the text gives
// the same model.
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
      .Field("output_bias", model.output_bias)
      .Field("mlp_bias", model.mlp_bias)
      .Field("tied_embeddings", model.tied_embeddings)
      .Field("rope_theta", model.rope_theta)
      .Field("norm_epsilon", model.norm_epsilon)
      .Field("attention_window", model.attention_window);
  if (model.global_attention_every > 0) {
    writer.Field("global_attention_every", model.global_attention_every);
  }
  if (model.experts > 0) {
    WriteMembers(writer, kExperts, model);
    writer.Field("router", Name(model.router));
    WriteMembers(writer, kRouting, model);
  }
  WriteMore(writer, model);
  writer.EndObject();
}

std::string ToJson(const ModelSpec& model) {
  JsonWriter writer(2);
  WriteJson(writer, model);
  return writer.Take();
}

}  // namespace foretrain
