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

std::int64_t NormParameters(const ModelSpec& model) {
  return model.hidden * (model.norm == NormKind::kLayerNorm ? 2 : 1);
}

std::int64_t LayerParameters(const ModelSpec& model) {
  const std::int64_t attention_width = model.heads * model.head_dim;
  std::int64_t weights = model.hidden * model.QkvWidth() + attention_width * model.hidden +
                         model.hidden * model.MlpUpWidth() + model.ffn_hidden * model.hidden;
  if (model.attention_bias) weights += model.QkvWidth();
  if (model.projection_bias) weights += model.hidden + model.MlpUpWidth() + model.hidden;
  return weights + 2 * NormParameters(model);
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
  return CheckSize(model);
}

std::int64_t ParameterCount(const ModelSpec& model) {
  const std::int64_t table = model.vocab * model.hidden;
  std::int64_t count = table + model.layers * LayerParameters(model) + NormParameters(model);
  if (model.positions == PositionKind::kLearned) count += model.max_sequence * model.hidden;
  if (!model.tied_embeddings) count += table;
  return count;
}

}  // namespace foretrain
