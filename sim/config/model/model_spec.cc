#include "sim/config/model/model_spec.h"

#include <algorithm>
#include <cstdlib>

#include "base/checked.h"
#include "base/enum_names.h"
#include "sim/config/model/parameter_count.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxNameBytes = 200;

// Names are printed in reports and terminals, so control characters are refused.
Result<void> CheckName(const std::string& name) {
  if (name.size() > kMaxNameBytes) {
    return Refuse("name: {} bytes long; shorten it to at most {}", name.size(), kMaxNameBytes);
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return Refuse("name: holds a control character (code {}); use printable text", int{c});
    }
  }
  return {};
}

Result<void> CheckCount(std::string_view field, std::int64_t value, std::int64_t low) {
  if (value >= low && value <= kMaxModelCount) return {};
  return Refuse("{} {}: must be from {} to {}", field, value, low, kMaxModelCount);
}

// Upper limits keep every product of two counts within 64 bits.
Result<void> CheckCounts(const ModelSpec& model) {
  FT_TRY(CheckCount("layers", model.layers, 1));
  FT_TRY(CheckCount("hidden", model.hidden, 1));
  FT_TRY(CheckCount("heads", model.heads, 1));
  FT_TRY(CheckCount("kv_heads", model.kv_heads, 1));
  FT_TRY(CheckCount("head_dim", model.head_dim, 1));
  FT_TRY(CheckCount("ffn_hidden", model.ffn_hidden, 1));
  FT_TRY(CheckCount("vocab", model.vocab, 1));
  FT_TRY(CheckCount("max_sequence", model.max_sequence, 1));
  FT_TRY(CheckCount("experts", model.experts, 0));
  FT_TRY(CheckCount("attention_window", model.attention_window, 0));
  FT_TRY(CheckCount("global_attention_every", model.global_attention_every, 0));
  if (!model.rotate_global &&
      (model.global_attention_every == 0 || model.positions != PositionKind::kRope)) {
    return Refuse(
        "rotate_global false with global_attention_every {} and positions {}: must be above 0, "
        "with positions rope",
        model.global_attention_every, Name(model.positions));
  }
  if (model.global_attention_every == 0 || model.attention_window > 0 ||
      model.attention_chunk > 0 || !model.rotate_global) {
    return {};
  }
  return Refuse(
      "global_attention_every {}: without a window all layers attend to all tokens; give "
      "attention_window or attention_chunk, or leave it out",
      model.global_attention_every);
}

Result<void> CheckReal(std::string_view field, double value, double below,
                       std::string_view example) {
  if (value > 0 && value < below) return {};  // false for NaN
  return Refuse("{} {}: must be above 0 and below {}, for example {}", field, value, below,
                example);
}

// Divisor of `count` nearest to `wanted`; on a tie the smaller. At most 2^16 steps.
std::int64_t NearestDivisor(std::int64_t count, std::int64_t wanted) {
  std::int64_t best = 1;
  const auto consider = [&](std::int64_t divisor) {
    const std::int64_t gap = std::abs(divisor - wanted), best_gap = std::abs(best - wanted);
    if (gap < best_gap || (gap == best_gap && divisor < best)) best = divisor;
  };
  for (std::int64_t d = 1; d * d <= count; ++d) {
    if (count % d != 0) continue;
    consider(d);
    consider(count / d);
  }
  return best;
}

// Groups of query heads share a key head, so heads must be a multiple of kv_heads. RoPE rotates
// pairs.
Result<void> CheckHeads(const ModelSpec& model) {
  if (model.heads % model.kv_heads != 0) {
    return Refuse("kv_heads {}: must divide heads {}; nearest: {}", model.kv_heads, model.heads,
                  NearestDivisor(model.heads, model.kv_heads));
  }
  if (model.positions == PositionKind::kRope && model.head_dim % 2 != 0) {
    return Refuse("head_dim {}: rotary positions turn pairs, so it must be even; nearest: {}",
                  model.head_dim, model.head_dim - 1 > 0 ? model.head_dim - 1 : 2);
  }
  return {};
}

// Checks the groups that limit a token's choice of experts.
Result<void> CheckGroups(const ModelSpec& model) {
  constexpr std::int64_t kMaxGroups = 64;
  const std::int64_t groups = model.expert_groups, limit = model.groups_per_token;
  if (groups == 0 && limit == 0) return {};
  if (groups < 1 || groups > kMaxGroups || model.experts % groups != 0) {
    return Refuse("expert_groups {}: must divide the {} experts and be at most {}, or 0", groups,
                  model.experts, kMaxGroups);
  }
  if (limit < 1 || limit > groups || model.experts / groups * limit < model.experts_per_token) {
    return Refuse(
        "groups_per_token {}: must be from 1 to the {} groups, with room for {} experts of {} a "
        "group",
        limit, groups, model.experts_per_token, model.experts / groups);
  }
  return {};
}

// Without experts every field of experts must have its neutral value: a leftover value would be
// ignored silently.
Result<void> CheckExperts(const ModelSpec& model) {
  if (model.experts == 0) {
    const bool asks = model.experts_per_token != 0 || model.expert_ffn_hidden != 0 ||
                      model.shared_ffn_hidden != 0 || model.first_dense_layers != 0 ||
                      model.balance_weight != 0 || model.balance_tokens != 0 ||
                      model.expert_groups != 0 || model.groups_per_token != 0 ||
                      model.expert_scale != 1 || model.router_bias || model.expert_bias ||
                      model.shared_gate || model.router_bias_rate != 0 || model.expert_every != 1 ||
                      model.weigh_expert_inputs;
    if (!asks) return {};
    return Refuse(
        "experts 0: experts_per_token {}, expert_ffn_hidden {}, shared_ffn_hidden {}, "
        "first_dense_layers {}, balance_weight {}, balance_tokens {}, expert_groups {} and "
        "groups_per_token {} must be 0 too, expert_scale {} and expert_every {} 1, "
        "router_bias_rate {} 0, router_bias, expert_bias, shared_gate and weigh_expert_inputs "
        "false, or give the experts",
        model.experts_per_token, model.expert_ffn_hidden, model.shared_ffn_hidden,
        model.first_dense_layers, model.balance_weight, model.balance_tokens, model.expert_groups,
        model.groups_per_token, model.expert_scale, model.expert_every, model.router_bias_rate);
  }
  if (model.shared_gate && model.shared_ffn_hidden == 0) {
    return Refuse(
        "shared_gate true with shared_ffn_hidden 0: there is nothing to scale; use false");
  }
  if (model.experts_per_token < 1 || model.experts_per_token > model.experts) {
    return Refuse("experts_per_token {}: must be from 1 to the {} experts", model.experts_per_token,
                  model.experts);
  }
  FT_TRY(CheckCount("expert_ffn_hidden", model.expert_ffn_hidden, 1));
  FT_TRY(CheckCount("shared_ffn_hidden", model.shared_ffn_hidden, 0));
  if (model.first_dense_layers < 0 || model.first_dense_layers >= model.layers) {
    return Refuse(
        "first_dense_layers {}: must be from 0 to {}, so that of {} layers one has experts",
        model.first_dense_layers, model.layers - 1, model.layers);
  }
  if (model.expert_every < 1 || model.DenseLayers() == model.layers) {
    return Refuse(
        "expert_every {}: must be from 1 to {}, so that one of layers {} to {} is a multiple of it",
        model.expert_every, model.layers, model.first_dense_layers + 1, model.layers);
  }
  if (!(model.router_bias_rate >= 0 && model.router_bias_rate <= 1)) {
    return Refuse("router_bias_rate {}: must be from 0 to 1, for example 0.001",
                  model.router_bias_rate);
  }
  if (model.router_bias_rate > 0 && model.router != RouterKind::kSigmoid) {
    return Refuse(
        "router_bias_rate {} with router {}: only the choice of a sigmoid router has biases; use 0 "
        "or router sigmoid",
        model.router_bias_rate, Name(model.router));
  }
  if (!(model.balance_weight >= 0 && model.balance_weight <= 1e6)) {
    return Refuse("balance_weight {}: must be from 0 to 1000000, for example 0.01",
                  model.balance_weight);
  }
  FT_TRY(CheckCount("balance_tokens", model.balance_tokens, 0));
  return CheckGroups(model);
}

// With latent attention every head has its own keys and values. Without it, its fields must be 0.
Result<void> CheckLatent(const ModelSpec& model) {
  if (model.attention == AttentionKind::kHeads) {
    const bool asks = model.query_rank != 0 || model.key_value_rank != 0 ||
                      model.rope_head_dim != 0 || model.value_head_dim != 0;
    if (!asks) return {};
    return Refuse(
        "attention heads: query_rank {}, key_value_rank {}, rope_head_dim {} and value_head_dim {} "
        "must be 0 too, or make it latent",
        model.query_rank, model.key_value_rank, model.rope_head_dim, model.value_head_dim);
  }
  FT_TRY(CheckCount("query_rank", model.query_rank, 0));
  FT_TRY(CheckCount("key_value_rank", model.key_value_rank, 1));
  FT_TRY(CheckCount("value_head_dim", model.value_head_dim, 1));
  if (model.rope_head_dim < 2 || model.rope_head_dim % 2 != 0 ||
      model.rope_head_dim >= model.head_dim) {
    return Refuse("rope_head_dim {}: must be even and from 2 to below head_dim {}",
                  model.rope_head_dim, model.head_dim);
  }
  if (model.kv_heads != model.heads || model.positions != PositionKind::kRope) {
    return Refuse(
        "attention latent with kv_heads {} of {} heads and positions {}: must be {} and rope",
        model.kv_heads, model.heads, Name(model.positions), model.heads);
  }
  if (!model.attention_bias && !model.output_bias && !model.qk_norm && model.rotary_dim == 0 &&
      model.attention_window == 0 && model.rotate_global &&
      model.order == LayerOrder::kSequential) {
    return {};
  }
  return Refuse(
      "attention latent: attention_bias, output_bias and qk_norm must be false, rotate_global "
      "true, "
      "rotary_dim and attention_window 0, order sequential");
}

// Checks the parameters of rope scalings that have any.
Result<void> CheckStretch(const ModelSpec& model) {
  FT_TRY(CheckReal("rope_factor", model.rope_factor, 1e18, "8"));
  FT_TRY(CheckReal("rope_magnitude", model.rope_magnitude, 1e18, "1"));
  FT_TRY(CheckCount("rope_original", model.rope_original, 0));
  const bool bounded =
      model.rope_scaling == RopeScaling::kYarn || model.rope_scaling == RopeScaling::kLlama3;
  if (!bounded || model.rope_original == 0) return {};
  FT_TRY(CheckReal("rope_low", model.rope_low, 1e18, "1"));
  // With equal bounds YaRN has a ramp of one pair (Kimi-K2), and Llama 3's scaling a step (Llama
  // 4).
  if (model.rope_high >= model.rope_low && model.rope_high < 1e18) return {};
  return Refuse("rope_high {} with rope_scaling {}: must be at least rope_low {}", model.rope_high,
                Name(model.rope_scaling), model.rope_low);
}

// Checks fields that only one kind of positions uses; a value with another kind would be ignored.
Result<void> CheckPositions(const ModelSpec& model) {
  const bool rope = model.positions == PositionKind::kRope;
  const std::int64_t turned = model.rotary_dim;
  if (turned != 0 && (!rope || turned < 2 || turned % 2 != 0 || turned > model.head_dim)) {
    return Refuse("rotary_dim {}: must be even, from 2 to head_dim {}, with positions rope, or 0",
                  turned, model.head_dim);
  }
  if (model.rope_scaling != RopeScaling::kNone && !rope) {
    return Refuse("rope_scaling {} with positions {}: use none", Name(model.rope_scaling),
                  Name(model.positions));
  }
  FT_TRY(CheckStretch(model));
  if (model.unused_positions != 0 && model.positions != PositionKind::kLearned) {
    return Refuse("unused_positions {} with positions {}: use 0", model.unused_positions,
                  Name(model.positions));
  }
  return CheckCount("unused_positions", model.unused_positions, 0);
}

// Checks what post-norms and parallel layers exclude.
Result<void> CheckOrder(const ModelSpec& model) {
  if (model.post_norms && (model.output_bias || model.mlp_bias || model.experts > 0)) {
    return Refuse("post_norms true: output_bias and mlp_bias must be false and experts 0");
  }
  if (!model.pre_norms && (!model.post_norms || model.predict_ahead > 0)) {
    return Refuse("pre_norms false: post_norms must be true and predict_ahead 0");
  }
  if (model.qk_norm_whole && !model.qk_norm) {
    return Refuse("qk_norm_whole true: qk_norm must be true");
  }
  if (model.order == LayerOrder::kSequential) return {};
  if (!model.post_norms && model.experts == 0) return {};
  return Refuse("order {}: post_norms must be false and experts 0", Name(model.order));
}

// Checks factors, which may be neutral: 0, or 1.
Result<void> CheckFactors(const ModelSpec& model) {
  struct Factor {
    std::string_view field;
    double value;
    bool may_be_zero;
  };
  for (const Factor& f :
       {Factor{"local_rope_theta", model.local_rope_theta, true},
        Factor{"attention_scale", model.attention_scale, true},
        Factor{"query_temperature", model.query_temperature, true},
        Factor{"attention_softcap", model.attention_softcap, true},
        Factor{"qkv_clip", model.qkv_clip, true},
        Factor{"logit_softcap", model.logit_softcap, true}, Factor{"z_loss", model.z_loss, true},
        Factor{"logit_scale", model.logit_scale, false},
        Factor{"embedding_scale", model.embedding_scale, false},
        Factor{"expert_scale", model.expert_scale, false},
        Factor{"predict_weight", model.predict_weight, true}}) {
    if (f.may_be_zero && f.value == 0) continue;
    FT_TRY(CheckReal(f.field, f.value, 1e18, f.may_be_zero ? "0 (without)" : "1"));
  }
  if (model.z_loss > 0 && model.logit_softcap > 0) {
    return Refuse("z_loss {} with logit_softcap {}: one of them must be 0", model.z_loss,
                  model.logit_softcap);
  }
  if (model.logit_scale != 1 && model.head_bias) {
    return Refuse("logit_scale {} with head_bias true: must be 1, or head_bias false",
                  model.logit_scale);
  }
  return CheckCount("predict_ahead", model.predict_ahead, 0);
}

// Checks attention that is not that of a decoder: of all tokens, or of chunks.
Result<void> CheckAttention(const ModelSpec& model) {
  FT_TRY(CheckCount("attention_chunk", model.attention_chunk, 0));
  if (!model.causal && (model.IsLatent() || model.attention_window > 0 ||
                        model.attention_chunk > 0 || model.attention_sinks ||
                        model.positions == PositionKind::kAlibi || model.predict_ahead > 0)) {
    return Refuse(
        "causal false: attention_window, attention_chunk and predict_ahead must be 0, "
        "attention_sinks false, attention heads, and positions other than alibi");
  }
  if (model.attention_chunk > 0 && (model.attention_window > 0 || model.IsLatent())) {
    return Refuse("attention_chunk {}: attention_window must be 0 and attention heads",
                  model.attention_chunk);
  }
  if (model.qk_l2_norm && (model.qk_norm || model.IsLatent() ||
                           model.positions != PositionKind::kRope || model.rope_magnitude != 1)) {
    return Refuse(
        "qk_l2_norm true: qk_norm must be false, attention heads, positions rope, and "
        "rope_magnitude 1");
  }
  const bool warms = model.query_temperature > 0;
  if (warms != (model.query_temperature_floor > 0) || (warms && model.rotate_global)) {
    return Refuse(
        "query_temperature {} with query_temperature_floor {}: must both be 0, or both above 0 "
        "with rotate_global false",
        model.query_temperature, model.query_temperature_floor);
  }
  return CheckCount("query_temperature_floor", model.query_temperature_floor, 0);
}

// Checks the parts that encoders and encoder-decoders add.
Result<void> CheckEncoder(const ModelSpec& model) {
  FT_TRY(CheckCount("token_types", model.token_types, 0));
  FT_TRY(CheckCount("encoder_layers", model.encoder_layers, 0));
  FT_TRY(CheckCount("relative_buckets", model.relative_buckets, 0));
  if ((model.relative_buckets > 0) != (model.positions == PositionKind::kRelative)) {
    return Refuse("relative_buckets {} with positions {}: must be above 0 with relative, else 0",
                  model.relative_buckets, Name(model.positions));
  }
  if (model.residual_after_norm &&
      (!model.pre_norms || model.post_norms || model.order != LayerOrder::kSequential ||
       model.embedding_norm || model.experts > 0 || model.predict_ahead > 0)) {
    return Refuse(
        "residual_after_norm true: pre_norms must be true, post_norms and embedding_norm false, "
        "order sequential, experts and predict_ahead 0");
  }
  if (model.head_transform && (model.predict_ahead > 0 || model.IsGated())) {
    return Refuse("head_transform true: predict_ahead must be 0 and mlp without a gate");
  }
  if (model.encoder_layers > 0 && (model.experts > 0 || model.IsLatent())) {
    return Refuse("encoder_layers {}: experts must be 0 and attention heads", model.encoder_layers);
  }
  const std::int64_t buckets = model.relative_buckets;
  if (buckets > 0 && (buckets % 2 != 0 || buckets < 4 || model.relative_max_distance <= buckets)) {
    return Refuse(
        "relative_buckets {} with relative_max_distance {}: buckets must be even and at least 4, "
        "and the distance above them",
        buckets, model.relative_max_distance);
  }
  return {};
}

// Counts in doubles first: if the total stays below 2^56, so does each product in integers.
Result<void> CheckSize(const ModelSpec& model) {
  if (ApproximateParameterCount(model) < static_cast<double>(kMaxProduct)) return {};
  return Refuse(
      "layers {}, hidden {}, heads {}, head_dim {}, ffn_hidden {}, vocab {}, experts {}, "
      "expert_ffn_hidden {}, shared_ffn_hidden {}: more than 2^56 parameters; make one of them "
      "smaller",
      model.layers, model.hidden, model.heads, model.head_dim, model.ffn_hidden, model.vocab,
      model.experts, model.expert_ffn_hidden, model.shared_ffn_hidden);
}

}  // namespace

std::string_view Name(NormKind norm) { return NameIn(kNormNames, norm); }
std::string_view Name(MlpKind mlp) { return NameIn(kMlpNames, mlp); }
std::string_view Name(PositionKind positions) { return NameIn(kPositionNames, positions); }
std::string_view Name(AttentionKind attention) { return NameIn(kAttentionNames, attention); }
std::string_view Name(LayerOrder order) { return NameIn(kOrderNames, order); }
std::string_view Name(RouterKind router) { return NameIn(kRouterNames, router); }
std::string_view Name(RopeScaling scaling) { return NameIn(kRopeScalingNames, scaling); }

std::optional<NormKind> ParseNorm(std::string_view name) {
  return ParseIn<NormKind>(kNormNames, name);
}
std::optional<MlpKind> ParseMlp(std::string_view name) { return ParseIn<MlpKind>(kMlpNames, name); }
std::optional<PositionKind> ParsePositions(std::string_view name) {
  return ParseIn<PositionKind>(kPositionNames, name);
}

// Counts are checked first: later checks divide by them.
Result<void> ValidateModel(const ModelSpec& model) {
  FT_TRY(CheckName(model.name));
  FT_TRY(CheckCounts(model));
  FT_TRY(CheckReal("rope_theta", model.rope_theta, 1e18, "10000"));
  FT_TRY(CheckReal("norm_epsilon", model.norm_epsilon, 1, "0.00001"));
  FT_TRY(CheckHeads(model));
  FT_TRY(CheckPositions(model));
  FT_TRY(CheckLatent(model));
  FT_TRY(CheckOrder(model));
  FT_TRY(CheckFactors(model));
  FT_TRY(CheckAttention(model));
  FT_TRY(CheckEncoder(model));
  FT_TRY(CheckExperts(model));
  return CheckSize(model);
}

}  // namespace foretrain
