// Readers of families with experts (own_parts.h).
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/config/model/import/own_parts.h"
#include "sim/config/model/import/readers.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Qwen's norm_topk_prob decides whether the softmax precedes or follows the choice.
void ReadQwenExperts(Config& config, ModelSpec& model) {
  ReadExperts(config, {}, model);
  ReadExpertLayers(config, model);
  model.router =
      config.BoolOr("norm_topk_prob", false) ? RouterKind::kTopKSoftmax : RouterKind::kSoftmaxTopK;
}

// Experts as in DeepSeek-V2: in groups, with shared experts. A file without them is of a dense
// model, which has no router.
void ReadDeepSeekExperts(Config& config, RouterKind router, ModelSpec& model) {
  if (!config.Has("n_routed_experts")) return;
  model.router = router;
  ReadExperts(config, {.experts = "n_routed_experts"}, model);
  RequireExpertsEverywhere(config);
  model.shared_ffn_hidden = config.IntegerOr("n_shared_experts", 0) * model.expert_ffn_hidden;
  model.first_dense_layers = config.IntegerOr("first_k_dense_replace", 0);
  model.expert_scale = config.NumberOr("routed_scaling_factor", 1);
  config.IgnoreIn({"topk_group"});
  const std::int64_t groups = config.IntegerOr("n_group", 1);
  if (groups > 1) {
    model.expert_groups = groups;
    model.groups_per_token = config.Count("topk_group");
  }
}

// YaRN also scales scores, by the square of its magnitude (yarn_apply_mscale in
// modeling_rope_utils.py).
void ReadScaleOfScores(Config& config, ModelSpec& model) {
  if (model.rope_scaling == RopeScaling::kNone) return;
  for (const std::string_view field : {"rope_scaling", "rope_parameters"}) {
    auto rope = config.ObjectOr(field);
    const double scale = rope ? rope->NumberOr("mscale_all_dim", 0, 0, 1e9) : 0;
    if (scale == 0) continue;
    const double more = YarnMagnitude(model.rope_factor, scale);
    model.attention_scale = more * more / std::sqrt(static_cast<double>(model.head_dim));
  }
}

// head_dim is the sum of the parts with and without rotary embedding.
void ReadLatentAttention(Config& config, ModelSpec& model) {
  config.MustBe("attention_bias", false, "latent attention has no biases");
  config.MustBe("mlp_bias", false, "experts have no biases");
  config.IgnoreIn({"qk_head_dim"});
  model.attention = AttentionKind::kLatent;
  model.rotary_dim = 0;
  model.query_rank = config.IsNull("q_lora_rank") ? 0 : config.IntegerOr("q_lora_rank", 0);
  model.key_value_rank = config.Count("kv_lora_rank");
  model.rope_head_dim = config.Count("qk_rope_head_dim");
  model.head_dim = config.Count("qk_nope_head_dim") + model.rope_head_dim;
  model.value_head_dim = config.Count("v_head_dim");
  model.kv_heads = model.heads;
  ReadScaleOfScores(config, model);
  constexpr double kLatentEpsilon = 1e-6;  // the library's value, whatever the file says
  if (model.norm_epsilon != kLatentEpsilon) {
    config.Note(fmt::format("norms of latent vectors have rms_norm_eps {} in place of {}",
                            model.norm_epsilon, kLatentEpsilon));
  }
}

// Experts of a Mixtral, which scores of disturbed tokens do not choose here.
void ReadMixtralExperts(Config& config, ModelSpec& model) {
  ReadExperts(config, {.experts = "num_local_experts", .width = "intermediate_size"}, model);
  if (config.NumberOr("router_jitter_noise", 0) > 0) {
    config.Unsupported("router_jitter_noise", "must be 0: scores are not disturbed here");
  }
}

// The list of layers with experts, if the file has it, must be every n-th one.
void RequireEveryNth(Config& config, const ModelSpec& model) {
  const JsonValue* const layers = config.Any("moe_layers");
  if (layers == nullptr || layers->kind() != JsonValue::Kind::kArray) return;
  std::int64_t expected = model.expert_every - 1;
  for (const JsonValue& layer : layers->items()) {
    const bool fits = layer.kind() == JsonValue::Kind::kInteger && layer.AsInteger() == expected;
    expected += model.expert_every;
    if (fits) continue;
    config.Unsupported("moe_layers", "must name every interleave_moe_layer_step-th layer");
    return;
  }
  if (layers->items().empty() || expected < model.layers) {
    config.Unsupported("moe_layers", "must name every interleave_moe_layer_step-th layer");
  }
}

// layer_types, if the file has it, must give chunks to the layers that rotate.
void RequireChunkedWhereRotated(Config& config, const ModelSpec& model) {
  const std::vector<std::string> types = config.StringsOr("layer_types");
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool whole = !model.rotate_global && model.IsGlobal(static_cast<std::int64_t>(i));
    if (types[i] == (whole ? "full_attention" : "chunked_attention")) continue;
    config.Unsupported("layer_types",
                       "must be \"chunked_attention\" in layers with rotary positions and "
                       "\"full_attention\" in the others");
    return;
  }
}

// Published files give attn_temperature_tuning as a number or as true.
void ReadTemperature(Config& config, ModelSpec& model) {
  const JsonValue* const tuned = config.Any("attn_temperature_tuning");
  const bool off =
      tuned != nullptr && ((tuned->kind() == JsonValue::Kind::kBool && !tuned->AsBool()) ||
                           (tuned->kind() == JsonValue::Kind::kInteger && tuned->AsInteger() == 0));
  const double scale = config.NumberOr("attn_scale", 0.1);
  const std::int64_t floor = config.CountOr("floor_scale", 8192);
  if (off || model.rotate_global) return;
  model.query_temperature = scale;
  model.query_temperature_floor = scale > 0 ? floor : 0;
}

}  // namespace

void MoreOfMixtral(Config& config, ModelSpec& model) {
  ReadWindow(config, model, 0);
  ReadMixtralExperts(config, model);
}

void MoreOfQwen2Moe(Config& config, ModelSpec& model) {
  model.attention_bias = config.BoolOr("qkv_bias", true);
  ReadQwenWindow(config, model);
  ReadQwenExperts(config, model);
  model.shared_ffn_hidden = config.Count("shared_expert_intermediate_size");
  model.shared_gate = model.shared_ffn_hidden > 0;
}

void MoreOfQwen3Moe(Config& config, ModelSpec& model) {
  MoreOfQwen3(config, model);
  ReadQwenExperts(config, model);
}

void MoreOfDeepSeekV2(Config& config, ModelSpec& model) {
  ReadLatentAttention(config, model);
  ReadDeepSeekExperts(
      config,
      config.BoolOr("norm_topk_prob", false) ? RouterKind::kTopKSoftmax : RouterKind::kSoftmaxTopK,
      model);
  const std::string method = config.StringOr("topk_method", "greedy");
  if (method == "greedy") model.expert_groups = model.groups_per_token = 0;
  config.Note(kAdjacentPairs);
}

// Published checkpoints contain multi-token prediction (MTP) modules; the library's model does not.
void MoreOfDeepSeekV3(Config& config, ModelSpec& model) {
  ReadLatentAttention(config, model);
  ReadDeepSeekExperts(config, RouterKind::kSigmoid, model);
  model.predict_ahead = config.IntegerOr("num_nextn_predict_layers", 0);
  config.MustBe("norm_topk_prob", true, "weights of a token's experts are divided by their sum");
  config.Note(kAdjacentPairs);
}

void MoreOfGlm4Moe(Config& config, ModelSpec& model) {
  MoreOfGlm(config, model);
  ReadDeepSeekExperts(config, RouterKind::kSigmoid, model);
  model.qk_norm = config.BoolOr("use_qk_norm", false);
  model.predict_ahead = config.IntegerOr("num_nextn_predict_layers", 0);
  config.MustBe("norm_topk_prob", true, "weights of a token's experts are divided by their sum");
}

// Every linear has a bias; every second layer has a window.
void MoreOfGptOss(Config& config, ModelSpec& model) {
  model.mlp = MlpKind::kClampedSwiglu;
  config.IgnoreIn({"hidden_act"});
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", true);
  model.attention_sinks = model.router_bias = model.expert_bias = true;
  ReadExperts(config, {.experts = "num_local_experts", .width = "intermediate_size"}, model);
  const std::int64_t window = config.Count("sliding_window");
  if (!ReadLayerTypes(config, model, window)) {
    model.attention_window = window;
    model.global_attention_every = 2;
  }
  DropWideWindow(model);
  const double alpha = config.NumberOr("swiglu_alpha", 1.702);
  if (alpha != 1.702 || config.NumberOr("swiglu_limit", 7) != 7) {
    config.Unsupported("swiglu_limit", "must be 7 with swiglu_alpha 1.702");
  }
}

// Norms of q and k span all heads (olmoe/modeling_olmoe.py).
void MoreOfOlmoe(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.qk_norm = model.qk_norm_whole = true;
  model.qkv_clip = config.NumberOr("clip_qkv", 0);
  ReadExperts(config, {.width = "intermediate_size"}, model);
  model.router =
      config.BoolOr("norm_topk_prob", false) ? RouterKind::kTopKSoftmax : RouterKind::kSoftmaxTopK;
}

// LayerNorms with biases. The router chooses one expert after the other, each by a softmax over
// scores near the best one (phimoe/modeling_phimoe.py).
void MoreOfPhiMoe(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.head_bias = config.BoolOr("lm_head_bias", false);
  ReadWindow(config, model, 0);
  ReadExperts(config, {.experts = "num_local_experts", .width = "intermediate_size"}, model);
  model.router = RouterKind::kSparseMixer;
  config.IgnoreIn(
      {"router_jitter_noise", "input_jitter_noise", "original_max_position_embeddings"});
}

// Norms of q and k span all heads; scores are sigmoids. Published files name the rotated elements
// of a head. Their prediction of further tokens is not part of the library's model.
void MoreOfMiniMaxM2(Config& config, ModelSpec& model) {
  model.qk_norm = model.qk_norm_whole = true;
  ReadMixtralExperts(config, model);
  model.router = RouterKind::kSigmoid;
  const std::int64_t turned = config.CountOr("rotary_dim", model.RotaryDim());
  model.rotary_dim = turned == model.head_dim ? 0 : turned;
  config.MustBe("use_qk_norm", true, "q and k have norms");
  for (const std::string_view field : {"qk_norm_type", "scoring_func"}) {
    const std::string_view only = field == "scoring_func" ? "sigmoid" : "per_layer";
    if (config.StringOr(field, only) == only) continue;
    config.Unsupported(field, fmt::format("must be \"{}\"", only));
  }
  if (config.BoolOr("use_mtp", false)) {
    const std::int64_t ahead = config.IntegerOr("num_mtp_modules", 0);
    config.Note(
        fmt::format("use_mtp: the {} layers that predict further tokens are left out", ahead));
  }
  config.IgnoreIn({"num_mtp_modules", "mtp_transformer_layers", "attn_type_list",
                   "shared_intermediate_size", "use_routing_bias"});
}

// Layers take turns twice: every n-th has experts, and every n-th sees beyond its chunk and has no
// positions (llama4/modeling_llama4.py). A token's weight multiplies its expert's input.
void MoreOfLlama4(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  ReadMixtralExperts(config, model);
  model.shared_ffn_hidden = model.expert_ffn_hidden;
  model.router = RouterKind::kTopKSigmoid;
  model.weigh_expert_inputs = true;
  model.expert_every = config.CountOr("interleave_moe_layer_step", 1);
  RequireEveryNth(config, model);
  ReadRopelessLayers(config, model);
  model.qk_l2_norm = config.BoolOr("use_qk_norm", true);
  const std::int64_t chunk =
      config.IsNull("attention_chunk_size") ? 0 : config.IntegerOr("attention_chunk_size", 8192);
  model.attention_chunk = chunk < model.max_sequence ? chunk : 0;
  RequireChunkedWhereRotated(config, model);
  ReadTemperature(config, model);
  config.Note(kAdjacentPairs);
}

// Sizes are in two objects. LayerNorms have no biases.
void MoreOfDbrx(Config& config, ModelSpec& model) {
  model.norm_bias = false;
  config.IgnoreIn({"num_key_value_heads"});
  auto attention = config.ObjectOr("attn_config");
  auto experts = config.ObjectOr("ffn_config");
  if (!attention || !experts) {
    config.Refuse(attention ? "ffn_config" : "attn_config",
                  "is missing; give the whole config.json");
    return;
  }
  model.kv_heads = attention->IntegerOr("kv_n_heads", 1, 1, kMaxModelCount);
  model.qkv_clip = attention->NumberOr("clip_qkv", 0, 0, 1e18);
  model.rope_theta = attention->NumberOr("rope_theta", model.rope_theta, 0, 1e18);
  model.expert_ffn_hidden = experts->IntegerOr("ffn_hidden_size", 3584, 1, kMaxModelCount);
  model.experts = experts->IntegerOr("moe_num_experts", 4, 1, kMaxModelCount);
  model.experts_per_token = experts->IntegerOr("moe_top_k", 1, 1, kMaxModelCount);
  model.balance_weight = experts->NumberOr("moe_loss_weight", 0.01, 0, 1e6) *
                         static_cast<double>(model.experts_per_token);
  // Weights of the chosen experts are divided by their sum, unless the field is null.
  constexpr std::string_view kNormalize = "moe_normalize_expert_weights";
  const auto names = experts->names();
  const bool is_null =
      !experts->Has(kNormalize) && std::find(names.begin(), names.end(), kNormalize) != names.end();
  model.router = is_null ? RouterKind::kSoftmaxTopK : RouterKind::kTopKSoftmax;
  model.ffn_hidden = model.expert_ffn_hidden;
}

}  // namespace foretrain
