// Shape of a transformer: a decoder, an encoder, or an encoder-decoder. plan.h says how it is split
// over ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace foretrain {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };
// Activation of the MLP. kGelu is the tanh form, also as the gate of kGeglu. kSwiglu, kGeglu and
// kClampedSwiglu are gated. kClampedSwiglu (gpt-oss) is (u + 1) g sigmoid(1.702 g) with g =
// min(gate, 7) and u = up clamped to [-7, 7].
enum class MlpKind : std::uint8_t {
  kGelu,
  kSwiglu,
  kGeluErf,
  kRelu,
  kSquaredRelu,
  kGeglu,
  kClampedSwiglu
};
// kAlibi subtracts distance times a slope per head from scores (Press et al. 2022). kRelative adds
// a learned number per head and bucket of distances, from one table for all layers of a stack (T5).
enum class PositionKind : std::uint8_t { kLearned, kRope, kAlibi, kNone, kRelative };
// kLatent: multi-head latent attention, whose keys and values come from one narrow vector per token
// (DeepSeek-AI 2024, s. 2.1).
enum class AttentionKind : std::uint8_t { kHeads, kLatent };
// Order of attention and MLP. kSequential: the MLP reads the residual after attention. kParallel:
// both read the layer's input, each through its own norm (GPT-NeoX). kParallelOneNorm: through one
// norm (GPT-J, Phi).
enum class LayerOrder : std::uint8_t { kSequential, kParallel, kParallelOneNorm };
// How a token's scores become its experts' weights. kTopKSoftmax: softmax over the chosen
// (Mixtral). kSoftmaxTopK: softmax over all, of which the chosen keep theirs (Qwen2-MoE). kSigmoid:
// a sigmoid each, divided by their sum over the chosen. With kSigmoid a bias that no gradient
// trains affects only the choice (DeepSeek-AI 2024b, s. 2.1.2). kSparseMixer: one expert after the
// other, each by a softmax over the scores near the best one (Liu et al. 2023); forecast only.
// kTopKSigmoid: a sigmoid of each chosen score, not divided by their sum (Llama 4).
enum class RouterKind : std::uint8_t {
  kTopKSoftmax,
  kSoftmaxTopK,
  kSigmoid,
  kSparseMixer,
  kTopKSigmoid
};
// How rotary frequencies are rescaled beyond the length of the first training.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

// A decoder, or an encoder if `causal` is false. Counts are > 0 unless a comment says what 0 means.
// heads * head_dim need not equal hidden; kv_heads divides heads.
struct ModelSpec {
  std::string name = "gpt";
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  // Width of queries and keys; with latent attention it includes rope_head_dim.
  std::int64_t head_dim = 0;
  // Width after the activation; a gated MLP's up projection is 2 * ffn_hidden wide.
  std::int64_t ffn_hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t max_sequence = 0;  // longest sequence; rows of a learned position table
  NormKind norm = NormKind::kLayerNorm;
  MlpKind mlp = MlpKind::kGelu;
  PositionKind positions = PositionKind::kLearned;
  LayerOrder order = LayerOrder::kSequential;
  bool norm_bias = true;       // for LayerNorm; RMSNorm has none
  bool attention_bias = true;  // q, k, v
  bool output_bias = true;     // attention output
  bool mlp_bias = true;        // both MLP projections
  bool head_bias = false;      // logits
  bool tied_embeddings = true;
  bool embedding_norm = false;  // a norm after the token embedding (BLOOM)
  bool pre_norms =
      true;  // norms of the inputs of attention and MLP; false: post_norms alone (OLMo 2)
  // Norms of the outputs of attention and MLP, before the residual (Gemma 2, GLM-4).
  bool post_norms = false;
  // Residuals add a branch to its normed input, as post-norm layers do. norm1 then normalizes the
  // sum of the layer before, and the final norm that of the last one (BERT).
  bool residual_after_norm = false;
  bool qk_norm = false;  // norms of each head of q and k, before rotation; one weight for all heads
  bool qk_norm_whole = false;  // qk_norm is one norm over all heads of q and one over those of k
  // Layers that rotate divide each head of q and k by its root mean square; no weights (Llama 4).
  bool qk_l2_norm = false;
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;
  std::int64_t rotary_dim = 0;        // leading elements of a head that are rotated; 0: all
  std::int64_t unused_positions = 0;  // rows of the position table before the first one (OPT)
  RopeScaling rope_scaling = RopeScaling::kNone;
  // Base in layers with a window, which are not rescaled; 0: rope_theta.
  double local_rope_theta = 0;
  // Parameters of rope_scaling. Frequencies are divided by rope_factor. YaRN keeps pairs that turn
  // more than rope_high times in rope_original positions, and fully divides those that turn less
  // than rope_low times. rope_whole_pairs rounds these bounds to whole pairs. For Llama 3, rope_low
  // and rope_high are low_freq_factor and high_freq_factor. Sines and cosines are multiplied by
  // rope_magnitude. A scaling without these parameters can be forecast but not run.
  double rope_factor = 1;
  std::int64_t rope_original = 0;
  double rope_low = 0;
  double rope_high = 0;
  bool rope_whole_pairs = true;
  double rope_magnitude = 1;
  bool causal = true;  // false: a token attends to later ones too (encoders)
  // Tokens that a token attends to, itself included; 0: all earlier ones.
  std::int64_t attention_window = 0;
  // Sequences are cut into chunks of so many tokens, and a token attends to those of its chunk; 0:
  // no chunks (Llama 4).
  std::int64_t attention_chunk = 0;
  // Every n-th layer attends to all earlier tokens despite the window or the chunks; 0: none.
  std::int64_t global_attention_every = 0;
  // False: the layers of global_attention_every have no rotary positions (SmolLM3, Command A).
  bool rotate_global = true;
  // Layers without rotary positions multiply the query at position p by 1 + query_temperature *
  // ln(1 + floor((p + 1) / query_temperature_floor)) (Llama 4); 0: off.
  double query_temperature = 0;
  std::int64_t query_temperature_floor = 0;
  double attention_scale = 0;    // factor of scores; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;  // a score becomes c tanh(score / c); 0: off
  double qkv_clip = 0;           // q, k and v are limited to [-c, c]; 0: off; forecast only
  double logit_softcap = 0;      // the softcap of logits
  double logit_scale = 1;        // factor of logits, before the softcap
  double z_loss = 0;             // weight of log^2 of the logits' normalizer in the loss; 0: none
  double embedding_scale = 1;    // factor of the token embeddings
  bool attention_sinks = false;  // a learned score per head that joins the softmax
  // Latent attention: queries pass through `query_rank` (0: directly), keys and values through
  // `key_value_rank`. The last rope_head_dim elements of a head are rotated; for keys they are
  // shared by all heads.
  AttentionKind attention = AttentionKind::kHeads;
  std::int64_t query_rank = 0;
  std::int64_t key_value_rank = 0;
  std::int64_t rope_head_dim = 0;
  std::int64_t value_head_dim = 0;
  // Mixture of experts, in every `expert_every`-th layer after the first `first_dense_layers`; 0
  // experts: none. An expert is an MLP of the kind `mlp`.
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_ffn_hidden = 0;
  // Total width of the experts that every token passes; 0: none.
  std::int64_t shared_ffn_hidden = 0;
  std::int64_t first_dense_layers = 0;
  // Layers n, 2 n, ... have experts, counted from 1; the others have the MLP of ffn_hidden.
  std::int64_t expert_every = 1;
  RouterKind router = RouterKind::kTopKSoftmax;
  double balance_weight = 0.0;  // weight of the load-balancing loss, Fedus et al. 2022, eq. 4
  // Consecutive tokens that are balanced together; 0: those of a micro-batch on one rank.
  std::int64_t balance_tokens = 0;
  // A token's experts lie in at most `groups_per_token` of `expert_groups` equal groups, which
  // bounds the nodes that it is sent to (DeepSeek-AI 2024, s. 2.1.2). 0: no limit.
  std::int64_t expert_groups = 0;
  std::int64_t groups_per_token = 0;
  // Factor of the sum of a token's experts.
  double expert_scale = 1;
  // A token's weight multiplies an expert's input, not its output (Llama 4).
  bool weigh_expert_inputs = false;
  // After each step, this is added to the choice bias of experts with less load than the mean. It
  // is subtracted from those with more load (DeepSeek-AI 2024b, s. 2.1.2: 0.001). 0: biases stay.
  double router_bias_rate = 0;
  bool router_bias = false;  // a trained bias of the scores
  bool expert_bias = false;  // biases in both projections of each expert
  // The shared experts' output is scaled by the sigmoid of one more score.
  bool shared_gate = false;
  // Depth of multi-token prediction (MTP): extra layers, one after the other, that predict further
  // tokens (DeepSeek-AI 2024b, s. 2.2).
  std::int64_t predict_ahead = 0;
  double predict_weight = 0.3;  // weight of the mean of their losses
  // BERT. Rows of the table of token types, which embeddings add; 0: none.
  std::int64_t token_types = 0;
  // A linear, the activation of `mlp` and a norm between the final norm and the logits.
  bool head_transform = false;
  // T5. Layers of the encoder; `layers` are then the decoder's, each with cross-attention. 0: no
  // encoder.
  std::int64_t encoder_layers = 0;
  std::int64_t relative_buckets = 0;  // buckets of distances, for positions relative
  // Distance from which the last bucket takes all tokens (base/numeric/relative_buckets.h).
  std::int64_t relative_max_distance = 128;

  bool HasEncoder() const { return encoder_layers > 0; }
  // Layers of both stacks. The encoder's come first.
  std::int64_t AllLayers() const { return encoder_layers + layers; }

  // True if layer `layer`, counted from 0, has experts.
  bool HasExperts(std::int64_t layer) const {
    return experts > 0 && layer >= first_dense_layers && (layer + 1) % expert_every == 0;
  }
  // Number of layers without experts.
  std::int64_t DenseLayers() const {
    return experts > 0 ? layers - layers / expert_every + first_dense_layers / expert_every
                       : layers;
  }
  bool IsGated() const {
    return mlp == MlpKind::kSwiglu || mlp == MlpKind::kGeglu || mlp == MlpKind::kClampedSwiglu;
  }
  std::int64_t UpWidth(std::int64_t width) const { return IsGated() ? 2 * width : width; }
  std::int64_t ExpertUpWidth() const { return UpWidth(expert_ffn_hidden); }
  std::int64_t SharedUpWidth() const { return UpWidth(shared_ffn_hidden); }
  std::int64_t MlpUpWidth() const { return UpWidth(ffn_hidden); }
  // Elements of a value head, and of an attention output head.
  std::int64_t ValueDim() const { return value_head_dim > 0 ? value_head_dim : head_dim; }
  std::int64_t QkvWidth() const { return (heads + kv_heads) * head_dim + kv_heads * ValueDim(); }
  std::int64_t AttentionWidth() const { return heads * ValueDim(); }
  // Key heads on one of `tp` ranks. With fewer key heads than ranks, several ranks hold the same
  // one.
  std::int64_t KvHeadsOn(std::int64_t tp) const { return kv_heads > tp ? kv_heads / tp : 1; }
  std::int64_t QkvWidthOn(std::int64_t tp) const {
    return heads / tp * head_dim + KvHeadsOn(tp) * (head_dim + ValueDim());
  }
  bool IsLatent() const { return attention == AttentionKind::kLatent; }
  // Latent attention: width of [k | v] of all heads without the rotary part.
  std::int64_t LatentKeyWidth() const {
    return heads * (head_dim - rope_head_dim + value_head_dim);
  }
  // Rotated elements of a head.
  std::int64_t RotaryDim() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
  bool HasNormBias() const { return norm == NormKind::kLayerNorm && norm_bias; }
  std::int64_t PositionRows() const { return max_sequence + unused_positions; }
  // Tokens that a token attends to in layers that are not global, for the given sequence length. 0:
  // all earlier ones, also if the window covers the sequence.
  std::int64_t WindowOfMaxLayers(std::int64_t sequence) const {
    return sequence <= attention_window ? 0 : attention_window;
  }
  // True if layer `layer`, counted from 0, attends to all earlier tokens despite the window.
  bool IsGlobal(std::int64_t layer) const {
    return global_attention_every > 0 && (layer + 1) % global_attention_every == 0;
  }
  bool operator==(const ModelSpec&) const = default;
};

// Largest value of a count.
inline constexpr std::int64_t kMaxModelCount = (std::int64_t{1} << 31) - 1;

// Names in files, in the order of the enumerators.
inline constexpr std::array<std::string_view, 2> kNormNames = {"layernorm", "rmsnorm"};
inline constexpr std::array<std::string_view, 7> kMlpNames = {
    "gelu", "swiglu", "gelu-erf", "relu", "squared-relu", "geglu", "clamped-swiglu"};
inline constexpr std::array<std::string_view, 5> kPositionNames = {"learned", "rope", "alibi",
                                                                   "none", "relative"};
inline constexpr std::array<std::string_view, 2> kAttentionNames = {"heads", "latent"};
inline constexpr std::array<std::string_view, 3> kOrderNames = {"sequential", "parallel",
                                                                "parallel-one-norm"};
inline constexpr std::array<std::string_view, 5> kRouterNames = {
    "topk-softmax", "softmax-topk", "sigmoid", "sparse-mixer", "topk-sigmoid"};
inline constexpr std::array<std::string_view, 6> kRopeScalingNames = {"none", "linear",   "dynamic",
                                                                      "yarn", "longrope", "llama3"};

std::string_view Name(NormKind norm);
std::string_view Name(MlpKind mlp);
std::string_view Name(PositionKind positions);
std::string_view Name(AttentionKind attention);
std::string_view Name(LayerOrder order);
std::string_view Name(RouterKind router);
std::string_view Name(RopeScaling scaling);
std::optional<NormKind> ParseNorm(std::string_view name);
std::optional<MlpKind> ParseMlp(std::string_view name);
std::optional<PositionKind> ParsePositions(std::string_view name);

// Checks every field of `model` by itself and against the others.
//
// Errors: kInvalidArgument, naming field, value and remedy:
//   - counts outside [1, 2^31), heads that kv_heads does not divide, an odd head_dim with RoPE;
//   - a global_attention_every without attention_window, unless rotate_global is false;
//   - a rope_theta or norm_epsilon that is not a positive number;
//   - experts without a width, or more experts per token than there are;
//   - fields of experts or latent attention in a model without them;
//   - more than 2^56 parameters; a name over 200 bytes or with control characters.
// O(1); safe from any thread.
Result<void> ValidateModel(const ModelSpec& model);

// Number of trainable parameters; a tied token table counts once. Each MTP layer adds two norms, a
// projection of both inputs, a final norm and a layer of the last kind. The choice bias of a
// sigmoid router does not count, because no gradient trains it. The model must be valid. O(1); safe
// from any thread.
std::int64_t ParameterCount(const ModelSpec& model);

// Parameters that one token passes: ParameterCount without the experts that it is not sent to.
std::int64_t ActiveParameterCount(const ModelSpec& model);

// Empty, or the first feature of the model that blocks do not support yet: "qk_norm true".
std::string WhyNotLowered(const ModelSpec& model);
// Empty, or the first feature that can be forecast (it changes neither sizes nor work) but that no
// kernel computes. A run would train another model.
std::string WhyNotExecuted(const ModelSpec& model);

}  // namespace foretrain
