// What is trained: the shape of a decoder-only transformer. Leaves out how it is split (plan.h) and
// its weights.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace foretrain {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };
enum class MlpKind : std::uint8_t { kGelu, kSwiglu };
enum class PositionKind : std::uint8_t { kLearned, kRope };

// GPT-2 and Llama families. Counts are > 0; heads * head_dim need not equal hidden; kv_heads
// divides heads.
struct ModelSpec {
  std::string name = "gpt";
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn_hidden =
      0;  // width after the activation; SwiGLU's up projection is 2 * ffn_hidden wide
  std::int64_t vocab = 0;
  std::int64_t max_sequence = 0;  // rows of the position table where positions are learned
  NormKind norm = NormKind::kLayerNorm;
  MlpKind mlp = MlpKind::kGelu;
  PositionKind positions = PositionKind::kLearned;
  bool attention_bias = true;   // q, k, v
  bool projection_bias = true;  // attention output and both MLP projections
  bool tied_embeddings = true;
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;

  std::int64_t QkvWidth() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t MlpUpWidth() const { return mlp == MlpKind::kSwiglu ? 2 * ffn_hidden : ffn_hidden; }
  bool operator==(const ModelSpec&) const = default;
};

// Refuses counts outside [1, 2^31), heads that kv_heads does not divide, an odd head_dim with RoPE,
// products past 2^56.
Result<void> ValidateModel(const ModelSpec& model);

// Trainable parameters, tied embedding counted once. The model is valid.
std::int64_t ParameterCount(const ModelSpec& model);

}  // namespace foretrain
