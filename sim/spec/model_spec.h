// What is trained: the shape of a decoder-only transformer. Leaves out how it is split (plan.h) and
// its weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace foretrain {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };
enum class MlpKind : std::uint8_t { kGelu, kSwiglu };
enum class PositionKind : std::uint8_t { kLearned, kRope };
// How a token's scores become the weights of its experts: softmax over the chosen ones (Mixtral),
// or over all, of which the chosen ones keep theirs (Qwen2-MoE).
enum class RouterKind : std::uint8_t { kTopKSoftmax, kSoftmaxTopK };

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
  std::int64_t attention_window =
      0;  // tokens that one attends to, itself included; 0: all earlier ones
  std::int64_t global_attention_every =
      0;  // every n-th layer attends to all earlier tokens all the same; 0: none does
  // Mixture of experts, in the layers behind the first `first_dense_layers`; 0 experts: none. An
  // expert is an MLP of the kind `mlp` without biases.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn_hidden = 0;
  std::int64_t shared_ffn_hidden = 0;  // of the experts that every token passes, together; 0: none
  std::int64_t first_dense_layers = 0;
  RouterKind router = RouterKind::kTopKSoftmax;
  double balance_weight = 0.0;  // of the load-balancing loss, Fedus et al. 2022, eq. 4
  // Consecutive tokens whose choices are balanced together; 0: those of a micro-batch on one rank.
  std::int64_t balance_tokens = 0;
  // A token's experts lie in `groups_per_token` of `expert_groups` equal groups, so that it goes to
  // as many nodes at most (DeepSeek-AI 2024, s. 2.1.2); 0: anywhere.
  std::int64_t expert_groups = 0;
  std::int64_t groups_per_token = 0;

  // Layers without experts, which come first.
  std::int64_t DenseLayers() const { return experts > 0 ? first_dense_layers : layers; }
  std::int64_t ExpertUpWidth() const {
    return mlp == MlpKind::kSwiglu ? 2 * expert_ffn_hidden : expert_ffn_hidden;
  }
  std::int64_t SharedUpWidth() const {
    return mlp == MlpKind::kSwiglu ? 2 * shared_ffn_hidden : shared_ffn_hidden;
  }
  std::int64_t QkvWidth() const { return (heads + 2 * kv_heads) * head_dim; }
  std::int64_t MlpUpWidth() const { return mlp == MlpKind::kSwiglu ? 2 * ffn_hidden : ffn_hidden; }
  // Tokens that one attends to in a sequence of the given length, in layers that are not global; 0:
  // all earlier ones, as where the window holds the sequence.
  std::int64_t WindowOfMost(std::int64_t sequence) const {
    return sequence <= attention_window ? 0 : attention_window;
  }
  // The same of layer `layer`, counted from 0.
  std::int64_t WindowOf(std::int64_t layer, std::int64_t sequence) const {
    const bool global = global_attention_every > 0 && (layer + 1) % global_attention_every == 0;
    return global ? 0 : WindowOfMost(sequence);
  }
  bool operator==(const ModelSpec&) const = default;
};

inline constexpr std::int64_t kMaxModelCount =
    (std::int64_t{1} << 31) - 1;  // largest value of a count

std::string_view Name(NormKind norm);           // "layernorm", "rmsnorm"
std::string_view Name(MlpKind mlp);             // "gelu", "swiglu"
std::string_view Name(PositionKind positions);  // "learned", "rope"
std::string_view Name(RouterKind router);       // "topk-softmax", "softmax-topk"
std::optional<NormKind> ParseNorm(std::string_view name);
std::optional<MlpKind> ParseMlp(std::string_view name);
std::optional<PositionKind> ParsePositions(std::string_view name);

// Checks every field of `model` by itself and against the others.
//
// Errors: kInvalidArgument, naming field, value and remedy: counts outside [1, 2^31), heads that
// kv_heads does not divide, an odd head_dim with RoPE, an attention_window outside [0, 2^31), a
// global_attention_every without one, a rope_theta or norm_epsilon that is no positive number,
// experts without a width or a number a token of at most experts, fields of experts where there are
// none, more than 2^56 parameters, a name over 200 bytes or with control characters. O(1); safe
// from any thread.
Result<void> ValidateModel(const ModelSpec& model);

// Trainable parameters: token and learned position tables, per layer the q, k, v, output and MLP
// weights with the biases that the flags ask for and two norms (LayerNorm has a bias, RMSNorm
// none), the final norm, and the head where it is not tied to the token table; with experts, in the
// layers that have them, the router and all experts instead of the MLP. The model is valid.
// O(1); safe from any thread.
std::int64_t ParameterCount(const ModelSpec& model);

// Those that one token passes: ParameterCount less the experts that it is not sent to.
std::int64_t ActiveParameterCount(const ModelSpec& model);

}  // namespace foretrain
