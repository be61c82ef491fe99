// Fields of a config.json that the families write (config_writers.h).
#include "sim/config/model/import/config_writers.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace foretrain {
namespace {

// The fields of a scaling that the library computes.
void WriteScaling(JsonWriter& json, const ModelSpec& model) {
  const RopeScaling scaling = model.rope_scaling;
  json.Field("rope_type", Name(scaling));
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
  json.Field("decoder_sparse_step", model.expert_every).Name("mlp_only_layers").BeginArray();
  for (std::int64_t layer = 0; layer < model.first_dense_layers; ++layer) json.Integer(layer);
  json.EndArray();
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

void WriteAttentionBias(JsonWriter& json, const ModelSpec& model) {
  json.Field("attention_bias", model.attention_bias);
}

// The library gives layers with a window its own rotary base unless rope_parameters names theirs.
void WriteOlmo3(JsonWriter& json, const ModelSpec& model) {
  WriteAttentionBias(json, model);
  WriteNeededWindow(json, model);
  json.Name("rope_parameters").BeginObject().Name("full_attention").BeginObject();
  if (model.rope_scaling == RopeScaling::kYarn) {
    WriteScaling(json, model);
  } else {
    json.Field("rope_type", "default");
  }
  const double local = model.local_rope_theta;
  json.Field("rope_theta", model.rope_theta).EndObject().Name("sliding_attention").BeginObject();
  json.Field("rope_type", "default").Field("rope_theta", local > 0 ? local : model.rope_theta);
  json.EndObject().EndObject();
}

void WriteOlmoe(JsonWriter& json, const ModelSpec& model) {
  WriteAttentionBias(json, model);
  WriteExperts(json, model, "num_experts");
  json.Field("norm_topk_prob", model.router == RouterKind::kTopKSoftmax);
  json.Name("clip_qkv");
  model.qkv_clip > 0 ? json.Number(model.qkv_clip) : json.Null();
}

void WriteRopelessLayers(JsonWriter& json, const ModelSpec& model) {
  json.Name("no_rope_layers").BeginArray();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    json.Integer(!model.rotate_global && model.IsGlobal(layer) ? 0 : 1);
  }
  json.EndArray();
}

void WriteSmolLm3(JsonWriter& json, const ModelSpec& model) {
  WriteLlama(json, model);
  json.Field("use_sliding_window", false);
  WriteRopelessLayers(json, model);
}

void WriteCohere(JsonWriter& json, const ModelSpec& model) {
  WriteAttentionBias(json, model);
  json.Field("logit_scale", model.logit_scale);
}

void WriteCohere2(JsonWriter& json, const ModelSpec& model) {
  WriteCohere(json, model);
  json.Field("sliding_window",
             model.attention_window > 0 ? model.attention_window : model.max_sequence);
  json.Name("layer_types").BeginArray();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    json.String(model.IsGlobal(layer) ? "full_attention" : "sliding_attention");
  }
  json.EndArray();
}

void WriteMiniMaxM2(JsonWriter& json, const ModelSpec& model) {
  WriteExperts(json, model, "num_local_experts");
  json.Field("rotary_dim", model.RotaryDim());
}

void WriteLlama4(JsonWriter& json, const ModelSpec& model) {
  WriteAttentionBias(json, model);
  WriteExperts(json, model, "num_local_experts");
  json.Field("intermediate_size", model.expert_ffn_hidden);
  json.Field("interleave_moe_layer_step", model.expert_every);
  json.Field("use_qk_norm", model.qk_l2_norm).Name("attention_chunk_size");
  model.attention_chunk > 0 ? json.Integer(model.attention_chunk) : json.Null();
  WriteRopelessLayers(json, model);
  json.Field("attn_temperature_tuning", model.query_temperature > 0);
  if (model.query_temperature == 0) return;
  json.Field("attn_scale", model.query_temperature);
  json.Field("floor_scale", model.query_temperature_floor);
}

void WriteT5(JsonWriter& json, const ModelSpec& model) {
  const bool gated = model.IsGated();
  json.Field("is_encoder_decoder", true).Field("num_layers", model.encoder_layers);
  json.Field("d_kv", model.head_dim);
  json.Field("relative_attention_num_buckets", model.relative_buckets);
  json.Field("relative_attention_max_distance", model.relative_max_distance);
  json.Field("feed_forward_proj", model.mlp == MlpKind::kRelu      ? "relu"
                                  : model.mlp == MlpKind::kGeluErf ? "gelu"
                                  : model.mlp == MlpKind::kGeglu   ? "gated-gelu"
                                                                   : "gated-silu");
  json.Field("is_gated_act", gated).Field("decoder_start_token_id", 0);
  json.Field("scale_decoder_outputs", model.logit_scale != 1);
}

// In the order in which a family is chosen for a model: those with fewer special parts first.
constexpr std::array kWriters = {
    ConfigWriter{"gpt2", "GPT2LMHeadModel", nullptr},
    ConfigWriter{"llama", "LlamaForCausalLM", WriteLlama},
    ConfigWriter{"mistral", "MistralForCausalLM", WriteWindow},
    ConfigWriter{"qwen2", "Qwen2ForCausalLM", WriteQwenWindow},
    ConfigWriter{"qwen3", "Qwen3ForCausalLM", WriteQwen3},
    ConfigWriter{"phi3", "Phi3ForCausalLM", WriteWindow},
    ConfigWriter{"gemma", "GemmaForCausalLM", WriteGemma},
    ConfigWriter{"gemma2", "Gemma2ForCausalLM", WriteGemma2},
    ConfigWriter{"gemma3_text", "Gemma3ForCausalLM", WriteGemma3},
    ConfigWriter{"mixtral", "MixtralForCausalLM", WriteMixtral},
    ConfigWriter{"qwen2_moe", "Qwen2MoeForCausalLM", WriteQwen2Moe},
    ConfigWriter{"qwen3_moe", "Qwen3MoeForCausalLM", WriteQwen3Moe},
    ConfigWriter{"olmo2", "Olmo2ForCausalLM", WriteAttentionBias},
    ConfigWriter{"olmo3", "Olmo3ForCausalLM", WriteOlmo3},
    ConfigWriter{"olmoe", "OlmoeForCausalLM", WriteOlmoe},
    ConfigWriter{"smollm3", "SmolLM3ForCausalLM", WriteSmolLm3},
    ConfigWriter{"cohere", "CohereForCausalLM", WriteCohere},
    ConfigWriter{"cohere2", "Cohere2ForCausalLM", WriteCohere2},
    ConfigWriter{"minimax_m2", "MiniMaxM2ForCausalLM", WriteMiniMaxM2},
    ConfigWriter{"deepseek_v2", "DeepseekV2ForCausalLM", WriteDeepSeekV2},
    ConfigWriter{"deepseek_v3", "DeepseekV3ForCausalLM", WriteDeepSeekV3},
    ConfigWriter{"gpt_oss", "GptOssForCausalLM", WriteGptOss},
    ConfigWriter{"llama4_text", "Llama4ForCausalLM", WriteLlama4},
    ConfigWriter{"t5", "T5ForConditionalGeneration", WriteT5},
    ConfigWriter{"mt5", "MT5ForConditionalGeneration", WriteT5},
};

}  // namespace

std::span<const ConfigWriter> ConfigWriters() { return kWriters; }

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
  json.Name("rope_scaling").BeginObject();
  WriteScaling(json, model);
  json.EndObject();
}

}  // namespace foretrain
