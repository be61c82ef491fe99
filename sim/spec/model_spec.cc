#include "sim/spec/model_spec.h"

#include <cstdlib>

#include "base/checked.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxNameBytes = 200;

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
  if (model.global_attention_every == 0 || model.attention_window > 0) return {};
  return Refuse(
      "global_attention_every {}: without a window all layers attend to all tokens; give "
      "attention_window or leave it out",
      model.global_attention_every);
}

Result<void> CheckReal(std::string_view field, double value, double below,
                       std::string_view example) {
  if (value > 0 && value < below) return {};  // false for NaN
  return Refuse("{} {}: must be above 0 and below {}, for example {}", field, value, below,
                example);
}

// The divisor of `count` nearest to `wanted`, the smaller of two. At most 2^16 steps.
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

// Groups that a token's experts may lie in.
Result<void> CheckGroups(const ModelSpec& model) {
  constexpr std::int64_t kMostGroups = 64;
  const std::int64_t groups = model.expert_groups, limit = model.groups_per_token;
  if (groups == 0 && limit == 0) return {};
  if (groups < 1 || groups > kMostGroups || model.experts % groups != 0) {
    return Refuse("expert_groups {}: must divide the {} experts and be at most {}, or 0", groups,
                  model.experts, kMostGroups);
  }
  if (limit < 1 || limit > groups || model.experts / groups * limit < model.experts_per_token) {
    return Refuse(
        "groups_per_token {}: must be from 1 to the {} groups, with room for {} experts of {} a "
        "group",
        limit, groups, model.experts_per_token, model.experts / groups);
  }
  return {};
}

Result<void> CheckExperts(const ModelSpec& model) {
  if (model.experts == 0) {
    const bool asks = model.experts_per_token != 0 || model.expert_ffn_hidden != 0 ||
                      model.shared_ffn_hidden != 0 || model.first_dense_layers != 0 ||
                      model.balance_weight != 0 || model.balance_tokens != 0 ||
                      model.expert_groups != 0 || model.groups_per_token != 0;
    if (!asks) return {};
    return Refuse(
        "experts 0: experts_per_token {}, expert_ffn_hidden {}, shared_ffn_hidden {}, "
        "first_dense_layers {}, balance_weight {}, balance_tokens {}, expert_groups {} and "
        "groups_per_token {} must be 0 too, or give the experts",
        model.experts_per_token, model.expert_ffn_hidden, model.shared_ffn_hidden,
        model.first_dense_layers, model.balance_weight, model.balance_tokens, model.expert_groups,
        model.groups_per_token);
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
  if (!(model.balance_weight >= 0 && model.balance_weight <= 1e6)) {
    return Refuse("balance_weight {}: must be from 0 to 1000000, for example 0.01",
                  model.balance_weight);
  }
  FT_TRY(CheckCount("balance_tokens", model.balance_tokens, 0));
  return CheckGroups(model);
}

std::int64_t NormParameters(const ModelSpec& model) {
  return model.hidden * (model.norm == NormKind::kLayerNorm ? 2 : 1);
}

// Attention and both norms.
std::int64_t CommonParameters(const ModelSpec& model) {
  const std::int64_t attention_width = model.heads * model.head_dim;
  std::int64_t weights = model.hidden * model.QkvWidth() + attention_width * model.hidden;
  if (model.attention_bias) weights += model.QkvWidth();
  if (model.projection_bias) weights += model.hidden;
  return weights + 2 * NormParameters(model);
}

std::int64_t LayerParameters(const ModelSpec& model) {
  std::int64_t weights =
      CommonParameters(model) + model.hidden * model.MlpUpWidth() + model.ffn_hidden * model.hidden;
  if (model.projection_bias) weights += model.MlpUpWidth() + model.hidden;
  return weights;
}

std::int64_t OneExpert(const ModelSpec& model) {
  return model.hidden * (model.ExpertUpWidth() + model.expert_ffn_hidden);
}

// Of a layer with experts, of which it has `experts`.
std::int64_t ExpertLayerParameters(const ModelSpec& model, std::int64_t experts) {
  return CommonParameters(model) + model.hidden * model.experts + experts * OneExpert(model) +
         model.hidden * (model.SharedUpWidth() + model.shared_ffn_hidden);
}

std::int64_t ParametersWith(const ModelSpec& model, std::int64_t experts) {
  const std::int64_t table = model.vocab * model.hidden;
  const std::int64_t dense = model.DenseLayers();
  std::int64_t count = table + dense * LayerParameters(model) + NormParameters(model);
  if (dense < model.layers) {
    count += (model.layers - dense) * ExpertLayerParameters(model, experts);
  }
  if (model.positions == PositionKind::kLearned) count += model.max_sequence * model.hidden;
  if (!model.tied_embeddings) count += table;
  return count;
}

// Each product of two or three factors is checked before it is made, so sums of ten of them stay
// inside int64.
Result<void> CheckSize(const ModelSpec& model) {
  constexpr std::string_view kRemedy = "more than 2^56 parameters; make one of them smaller";
  if (!CheckedMul("", model.heads, model.head_dim, model.hidden)) {
    return Refuse("hidden {}, heads {}, head_dim {}: {}", model.hidden, model.heads, model.head_dim,
                  kRemedy);
  }
  if (!CheckedMul("", model.hidden, model.ffn_hidden)) {
    return Refuse("hidden {}, ffn_hidden {}: {}", model.hidden, model.ffn_hidden, kRemedy);
  }
  if (!CheckedMul("", model.hidden, model.vocab)) {
    return Refuse("hidden {}, vocab {}: {}", model.hidden, model.vocab, kRemedy);
  }
  if (model.experts > 0 &&
      (!CheckedMul("", model.hidden, model.experts) ||
       !CheckedMul("", model.hidden, model.shared_ffn_hidden) ||
       !CheckedMul("", model.hidden, model.expert_ffn_hidden, 3, model.experts) ||
       !CheckedMul("", ExpertLayerParameters(model, model.experts), model.layers))) {
    return Refuse(
        "layers {}, hidden {}, experts {}, expert_ffn_hidden {}, shared_ffn_hidden {}: {}",
        model.layers, model.hidden, model.experts, model.expert_ffn_hidden, model.shared_ffn_hidden,
        kRemedy);
  }
  if (model.positions == PositionKind::kLearned &&
      !CheckedMul("", model.hidden, model.max_sequence)) {
    return Refuse("hidden {}, max_sequence {}: {}", model.hidden, model.max_sequence, kRemedy);
  }
  if (!CheckedMul("", LayerParameters(model), model.layers) ||
      ParameterCount(model) > kMaxProduct) {
    return Refuse("layers {}, hidden {}, heads {}, head_dim {}, ffn_hidden {}, vocab {}: {}",
                  model.layers, model.hidden, model.heads, model.head_dim, model.ffn_hidden,
                  model.vocab, kRemedy);
  }
  return {};
}

}  // namespace

std::string_view Name(NormKind norm) {
  return norm == NormKind::kLayerNorm ? "layernorm" : "rmsnorm";
}

std::string_view Name(MlpKind mlp) { return mlp == MlpKind::kGelu ? "gelu" : "swiglu"; }

std::string_view Name(PositionKind positions) {
  return positions == PositionKind::kLearned ? "learned" : "rope";
}

std::string_view Name(RouterKind router) {
  return router == RouterKind::kTopKSoftmax ? "topk-softmax" : "softmax-topk";
}

std::optional<NormKind> ParseNorm(std::string_view name) {
  if (name == "layernorm") return NormKind::kLayerNorm;
  if (name == "rmsnorm") return NormKind::kRmsNorm;
  return std::nullopt;
}

std::optional<MlpKind> ParseMlp(std::string_view name) {
  if (name == "gelu") return MlpKind::kGelu;
  if (name == "swiglu") return MlpKind::kSwiglu;
  return std::nullopt;
}

std::optional<PositionKind> ParsePositions(std::string_view name) {
  if (name == "learned") return PositionKind::kLearned;
  if (name == "rope") return PositionKind::kRope;
  return std::nullopt;
}

Result<void> ValidateModel(const ModelSpec& model) {
  FT_TRY(CheckName(model.name));
  FT_TRY(CheckCounts(model));
  FT_TRY(CheckReal("rope_theta", model.rope_theta, 1e18, "10000"));
  FT_TRY(CheckReal("norm_epsilon", model.norm_epsilon, 1, "0.00001"));
  FT_TRY(CheckHeads(model));
  FT_TRY(CheckExperts(model));
  return CheckSize(model);
}

std::int64_t ParameterCount(const ModelSpec& model) { return ParametersWith(model, model.experts); }

std::int64_t ActiveParameterCount(const ModelSpec& model) {
  return ParametersWith(model, model.experts_per_token);
}

}  // namespace foretrain
