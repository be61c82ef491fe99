// What is trained: the shape of a decoder-only transformer. Leaves out how it is split (plan.h) and
// its weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace foretrain {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };
// Gelu: tanh form; the last four are ungated but for kGeglu, whose gate is a tanh GELU, and
// kClampedSwiglu: (min(up, 7) clamped below at -7, + 1) * gate * sigmoid(1.702 gate) (gpt-oss).
enum class MlpKind : std::uint8_t {
  kGelu,
  kSwiglu,
  kGeluErf,
  kRelu,
  kSquaredRelu,
  kGeglu,
  kClampedSwiglu
};
// kAlibi: a slope a head times the distance is taken from scores (Press et al. 2022).
enum class PositionKind : std::uint8_t { kLearned, kRope, kAlibi, kNone };
// kLatent: multi-head latent attention, whose keys and values are made of a narrow vector a token
// (DeepSeek-AI 2024, s. 2.1).
enum class AttentionKind : std::uint8_t { kHeads, kLatent };
// Whether the MLP reads what attention has added to, or both read the layer's input and are added
// to it together: each through a norm of its own (GPT-NeoX), or through one (GPT-J, Phi).
enum class LayerOrder : std::uint8_t { kSequential, kParallel, kParallelOneNorm };
// How a token's scores become the weights of its experts: softmax over the chosen ones (Mixtral),
// over all, of which the chosen ones keep theirs (Qwen2-MoE), or a sigmoid of each, of which those
// of the chosen ones are divided by their sum; a bias that no gradient trains joins the choice
// alone (DeepSeek-AI 2024b, s. 2.1.2).
enum class RouterKind : std::uint8_t { kTopKSoftmax, kSoftmaxTopK, kSigmoid };
// How rotary frequencies are stretched beyond the length that a model was first trained on.
enum class RopeScaling : std::uint8_t { kNone, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

// A decoder. Counts are > 0 unless a comment says what 0 means; heads * head_dim need not equal
// hidden; kv_heads divides heads.
struct ModelSpec {
  std::string name = "gpt";
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // of queries and keys; with latent attention rope_head_dim is part
  std::int64_t ffn_hidden =
      0;  // width after the activation; a gated MLP's up projection is 2 * ffn_hidden wide
  std::int64_t vocab = 0;
  std::int64_t max_sequence = 0;  // longest sequence; rows of the position table where learned
  NormKind norm = NormKind::kLayerNorm;
  MlpKind mlp = MlpKind::kGelu;
  PositionKind positions = PositionKind::kLearned;
  LayerOrder order = LayerOrder::kSequential;
  bool norm_bias = true;       // of LayerNorm; RMSNorm has none
  bool attention_bias = true;  // q, k, v
  bool output_bias = true;     // attention output
  bool mlp_bias = true;        // both MLP projections
  bool head_bias = false;      // logits
  bool tied_embeddings = true;
  bool embedding_norm = false;  // of the tokens' vectors (BLOOM)
  bool post_norms = false;      // of what attention and MLP add to the residual (Gemma 2, GLM-4)
  bool qk_norm = false;  // of each head of q and k, before rotation; one weight for all heads
  double rope_theta = 10000.0;
  double norm_epsilon = 1e-5;
  std::int64_t rotary_dim = 0;        // leading elements of a head that are turned; 0: all
  std::int64_t unused_positions = 0;  // rows of the position table before the first one (OPT)
  RopeScaling rope_scaling = RopeScaling::kNone;
  double local_rope_theta = 0;  // of layers with a window, which are not stretched; 0: rope_theta
  // Of rope_scaling: frequencies are divided by `rope_factor`; yarn: pairs that turn more than
  // rope_high times in rope_original positions are left alone, those that turn less than rope_low
  // times are not, and the bounds are whole pairs or not; llama3: rope_low and rope_high are
  // low_freq_factor and high_freq_factor. Sines and cosines are multiplied by rope_magnitude. What
  // has none of them is forecast alone.
  double rope_factor = 1;
  std::int64_t rope_original = 0;
  double rope_low = 0;
  double rope_high = 0;
  bool rope_whole_pairs = true;
  double rope_magnitude = 1;
  std::int64_t attention_window =
      0;  // tokens that one attends to, itself included; 0: all earlier ones
  std::int64_t global_attention_every =
      0;  // every n-th layer attends to all earlier tokens all the same; 0: none does
  double attention_scale = 0;    // of scores; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;  // c tanh(score / c) for a score; 0: none
  double logit_softcap = 0;      // likewise of logits
  double embedding_scale = 1;    // of the tokens' vectors
  bool attention_sinks = false;  // a learned score a head that takes its part of the softmax
  // Latent attention: queries through `query_rank` (0: straight), keys and values through
  // `key_value_rank`; the last rope_head_dim of a head's head_dim are turned, and are the same key
  // for all heads.
  AttentionKind attention = AttentionKind::kHeads;
  std::int64_t query_rank = 0;
  std::int64_t key_value_rank = 0;
  std::int64_t rope_head_dim = 0;
  std::int64_t value_head_dim = 0;
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
  double expert_scale = 1;   // of the sum of a token's experts
  // Added after each step to the bias of an expert's choice that less than the mean went to, and
  // taken from those that more went to (DeepSeek-AI 2024b, s. 2.1.2: 0.001); 0: biases stay.
  double router_bias_rate = 0;
  bool router_bias = false;  // of scores, trained
  bool expert_bias = false;  // both projections of each expert
  bool shared_gate = false;  // the shared experts' output is scaled by a sigmoid of one more score
  // Layers that predict tokens further ahead, one behind the other (DeepSeek-AI 2024b, s. 2.2).
  std::int64_t predict_ahead = 0;
  double predict_weight = 0.3;  // of the mean of their losses

  // Layers without experts, which come first.
  std::int64_t DenseLayers() const { return experts > 0 ? first_dense_layers : layers; }
  bool IsGated() const {
    return mlp == MlpKind::kSwiglu || mlp == MlpKind::kGeglu || mlp == MlpKind::kClampedSwiglu;
  }
  std::int64_t UpWidth(std::int64_t width) const { return IsGated() ? 2 * width : width; }
  std::int64_t ExpertUpWidth() const { return UpWidth(expert_ffn_hidden); }
  std::int64_t SharedUpWidth() const { return UpWidth(shared_ffn_hidden); }
  std::int64_t MlpUpWidth() const { return UpWidth(ffn_hidden); }
  // Elements of a head of values, which attention's outputs have too.
  std::int64_t ValueDim() const { return value_head_dim > 0 ? value_head_dim : head_dim; }
  std::int64_t QkvWidth() const { return (heads + kv_heads) * head_dim + kv_heads * ValueDim(); }
  std::int64_t AttentionWidth() const { return heads * ValueDim(); }
  // Of one of `tp` ranks: with fewer heads of keys and values than ranks several have the same one.
  std::int64_t KvHeadsOn(std::int64_t tp) const { return kv_heads > tp ? kv_heads / tp : 1; }
  std::int64_t QkvWidthOn(std::int64_t tp) const {
    return heads / tp * head_dim + KvHeadsOn(tp) * (head_dim + ValueDim());
  }
  // Ranks of `tp` that have the same head of keys and values.
  std::int64_t KvCopies(std::int64_t tp) const { return kv_heads < tp ? tp / kv_heads : 1; }
  bool IsLatent() const { return attention == AttentionKind::kLatent; }
  // Of latent attention: [k | v] of all heads without what is turned.
  std::int64_t LatentKeyWidth() const {
    return heads * (head_dim - rope_head_dim + value_head_dim);
  }
  // Elements of a head that are turned.
  std::int64_t RotaryDim() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
  bool HasNormBias() const { return norm == NormKind::kLayerNorm && norm_bias; }
  std::int64_t PositionRows() const { return max_sequence + unused_positions; }
  // Tokens that one attends to in a sequence of the given length, in layers that are not global; 0:
  // all earlier ones, as where the window holds the sequence.
  std::int64_t WindowOfMost(std::int64_t sequence) const {
    return sequence <= attention_window ? 0 : attention_window;
  }
  // Whether layer `layer`, counted from 0, attends to all earlier tokens in spite of the window.
  bool IsGlobal(std::int64_t layer) const {
    return global_attention_every > 0 && (layer + 1) % global_attention_every == 0;
  }
  std::int64_t WindowOf(std::int64_t layer, std::int64_t sequence) const {
    return IsGlobal(layer) ? 0 : WindowOfMost(sequence);
  }
  bool operator==(const ModelSpec&) const = default;
};

inline constexpr std::int64_t kMaxModelCount =
    (std::int64_t{1} << 31) - 1;  // largest value of a count

// As files write them, in the order of the enumerators.
inline constexpr std::array<std::string_view, 2> kNormNames = {"layernorm", "rmsnorm"};
inline constexpr std::array<std::string_view, 7> kMlpNames = {
    "gelu", "swiglu", "gelu-erf", "relu", "squared-relu", "geglu", "clamped-swiglu"};
inline constexpr std::array<std::string_view, 4> kPositionNames = {"learned", "rope", "alibi",
                                                                   "none"};
inline constexpr std::array<std::string_view, 2> kAttentionNames = {"heads", "latent"};
inline constexpr std::array<std::string_view, 3> kOrderNames = {"sequential", "parallel",
                                                                "parallel-one-norm"};
inline constexpr std::array<std::string_view, 3> kRouterNames = {"topk-softmax", "softmax-topk",
                                                                 "sigmoid"};
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
// Errors: kInvalidArgument, naming field, value and remedy: counts outside [1, 2^31), heads that
// kv_heads does not divide, an odd head_dim with RoPE, an attention_window outside [0, 2^31), a
// global_attention_every without one, a rope_theta or norm_epsilon that is no positive number,
// experts without a width or a number a token of at most experts, fields of experts where there are
// none, fields of latent attention without it or the other way round, more than 2^56 parameters, a
// name over 200 bytes or with control characters. O(1); safe from any thread.
Result<void> ValidateModel(const ModelSpec& model);

// Trainable parameters, by tensor of every kind that the fields ask for; a token table that is tied
// counts once. Of layers that predict ahead two norms, the projection of both inputs, and a layer
// of the last one's kind (parameter_count.cc). What no gradient trains (the bias of a sigmoid
// router's choice) does not count. The model is valid. O(1); safe from any thread.
std::int64_t ParameterCount(const ModelSpec& model);

// Those that one token passes: ParameterCount less the experts that it is not sent to.
std::int64_t ActiveParameterCount(const ModelSpec& model);

// Nothing, or the first thing of the model that blocks do not compute yet: "qk_norm true".
std::string WhyNotLowered(const ModelSpec& model);
// The same of what is forecast, because it changes neither sizes nor work, and that no kernel
// computes: a run would train another model.
std::string WhyNotExecuted(const ModelSpec& model);

}  // namespace foretrain
