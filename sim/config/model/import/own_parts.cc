#include "sim/config/model/import/own_parts.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "sim/config/model/import/readers.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// GPT-2's variants of the scale of scores, which no kernel computes.
void RequirePlainScores(Config& config) {
  config.MustBe("scale_attn_weights", true, "scores are always scaled by 1/sqrt(head_dim)");
  config.MustBe("scale_attn_by_inverse_layer_idx", false, "scores are scaled alike in all layers");
}

}  // namespace

void MoreOfGpt2(Config& config, ModelSpec&) { RequirePlainScores(config); }

void MoreOfGptBigCode(Config& config, ModelSpec& model) {
  RequirePlainScores(config);
  if (config.BoolOr("multi_query", true)) model.kv_heads = 1;
  config.IgnoreIn({"num_key_value_heads"});
}

// Only MLP and head have biases; attention and MLP read one norm.
void MoreOfGptJ(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = false;
  model.head_bias = true;
  model.order = LayerOrder::kParallelOneNorm;
  const std::int64_t turned = config.CountOr("rotary_dim", 64);
  model.rotary_dim = turned == model.head_dim ? 0 : turned;
}

// parallel_residual defaults to true in the library.
void MoreOfGptNeoX(Config& config, ModelSpec& model) {
  if (config.BoolOr("use_parallel_residual", true)) model.order = LayerOrder::kParallel;
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", true);
}

// The position table has two unused rows before the first position (modeling_opt.py).
void MoreOfOpt(Config& config, ModelSpec& model) {
  model.unused_positions = 2;
  config.MustBe("do_layer_norm_before", true, "norms stand before attention and MLP");
  config.MustBe("_remove_final_layer_norm", false, "the last layer is followed by a norm");
  config.MustBe("layer_norm_elementwise_affine", true, "norms have weights");
  if (config.CountOr("word_embed_proj_dim", model.hidden) != model.hidden) {
    config.Unsupported("word_embed_proj_dim", "must be hidden_size: tokens have no projection");
  }
  model.attention_bias = model.output_bias = model.mlp_bias = config.BoolOr("enable_bias", true);
}

void MoreOfBloom(Config& config, ModelSpec& model) {
  model.embedding_norm = true;
  config.MustBe("apply_residual_connection_post_layernorm", false,
                "the residual passes beside the norm");
  if (!config.Has("seq_length")) {
    config.Note("seq_length is missing: sequences of up to 2048 tokens, as BLOOM was trained on");
  }
}

// The library uses no biases and always ALiBi, whatever the file says (modeling_mpt.py).
void MoreOfMpt(Config& config, ModelSpec& model) {
  model.norm_bias = model.attention_bias = model.output_bias = model.mlp_bias = false;
  model.ffn_hidden = config.CountOr("expansion_ratio", 4) * model.hidden;
  config.MustBe("no_bias", true, "no linear or norm has a bias");
  config.IgnoreIn({"learned_pos_emb", "embedding_fraction", "logit_scale", "norm_type"});
  if (auto attention = config.ObjectOr("attn_config")) {
    if (!attention->BoolOr("alibi", true)) {
      config.Unsupported("attn_config.alibi", "must be true: the library has no other positions");
    }
    if (attention->BoolOr("qk_ln", false) || attention->Has("clip_qkv")) {
      config.Unsupported("attn_config",
                         "qk_ln must be false and clip_qkv null: q and k are neither normalized "
                         "nor clipped");
    }
    if (attention->Has("softmax_scale")) {
      model.attention_scale = attention->NumberOr("softmax_scale", 0, 0, 1e9);
    }
  }
}

// The first generation (7B) has one norm and one key head, the second (40B) one or two norms.
// Biases default to off in both.
void MoreOfFalcon(Config& config, ModelSpec& model) {
  const bool second = config.BoolOr("new_decoder_architecture", false);
  const bool bias = config.BoolOr("bias", false);
  model.attention_bias = model.output_bias = model.mlp_bias = bias;
  config.IgnoreIn({"multi_query", "parallel_attn", "num_ln_in_parallel_attn"});
  if (config.BoolOr("alibi", false)) {
    model.positions = PositionKind::kAlibi;
    config.Note("distances are taken from scores that are scaled already; the library scales both");
  }
  if (second) {
    model.kv_heads = config.CountOr("num_kv_heads|n_head_kv", model.heads);
    model.order = config.CountOr("num_ln_in_parallel_attn", 2) == 1 ? LayerOrder::kParallelOneNorm
                                                                    : LayerOrder::kParallel;
  } else {
    config.CountOr("num_kv_heads|n_head_kv", 1);
    if (config.BoolOr("multi_query", true)) model.kv_heads = 1;
    if (config.BoolOr("parallel_attn", true)) model.order = LayerOrder::kParallelOneNorm;
  }
}

void MoreOfStarCoder2(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = model.mlp_bias = config.BoolOr("use_bias", true);
  ReadWindow(config, model, 0);
}

void MoreOfStableLm(Config& config, ModelSpec& model) {
  model.attention_bias = config.BoolOr("use_qkv_bias", false);
  if (config.BoolOr("use_parallel_residual", false)) model.order = LayerOrder::kParallelOneNorm;
  config.MustBe("qk_layernorm", false, "norms of q and k have a weight that all heads share");
}

void MoreOfNemotron(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.mlp_bias = config.BoolOr("mlp_bias", false);
  config.Note("norms' weights are those of the file plus 1");
}

void MoreOfPhi(Config& config, ModelSpec& model) {
  model.order = LayerOrder::kParallelOneNorm;
  model.head_bias = true;
  config.MustBe("qk_layernorm", false, "q and k have no LayerNorm");
}

void MoreOfPhi3(Config& config, ModelSpec& model) { ReadWindow(config, model, 0); }

// In Llama `attention_bias` covers q, k, v and the output, `mlp_bias` the MLP.
void MoreOfLlama(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.mlp_bias = config.BoolOr("mlp_bias", false);
}

void MoreOfMistral(Config& config, ModelSpec& model) {
  constexpr std::int64_t kLibraryDefault = 4096;
  ReadWindow(config, model, kLibraryDefault);
}

void MoreOfQwen2(Config& config, ModelSpec& model) {
  model.attention_bias = true;
  ReadQwenWindow(config, model);
}

void MoreOfQwen3(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.qk_norm = true;
  ReadQwenWindow(config, model);
}

// Token embeddings are scaled by sqrt(hidden). Gemma's first files say hidden_act gelu but mean the
// tanh form; Gemma 2 and 3 use hidden_activation.
void MoreOfGemma(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  const std::string before = config.StringOr("hidden_act", "gelu_pytorch_tanh");
  const std::string activation = config.StringOr("hidden_activation", before);
  if (config.ok() && activation != "gelu_pytorch_tanh" && activation != "gelu") {
    config.Unsupported("hidden_act", fmt::format("\"{}\" is not supported in this family; must be "
                                                 "\"gelu_pytorch_tanh\"",
                                                 Printable(activation)));
  }
  model.embedding_scale = std::sqrt(static_cast<double>(model.hidden));
  config.MustBe("use_bidirectional_attention", false, "tokens see those before them");
  config.Note("norms' weights are those of the file plus 1");
}

// query_pre_attn_scalar replaces head_dim in the scale of scores.
void MoreOfGemma2(Config& config, ModelSpec& model) {
  MoreOfGemma(config, model);
  model.post_norms = true;
  constexpr std::int64_t kLibraryDefault = 256;
  const std::int64_t scalar = config.CountOr("query_pre_attn_scalar", kLibraryDefault);
  if (scalar != model.head_dim) {
    model.attention_scale = 1 / std::sqrt(static_cast<double>(scalar));
  }
  model.attention_softcap = config.NumberOr("attn_logit_softcapping", 0);
  model.logit_softcap = config.NumberOr("final_logit_softcapping", 0);
  const std::int64_t window = config.Count("sliding_window");
  if (!ReadLayerTypes(config, model, window)) {
    model.attention_window = window;
    model.global_attention_every = 2;
  }
  DropWideWindow(model);
}

// Every sixth layer attends globally and has another rotary base; q and k have norms.
void MoreOfGemma3(Config& config, ModelSpec& model) {
  const std::int64_t every = config.CountOr("sliding_window_pattern|_sliding_window_pattern", 6);
  MoreOfGemma2(config, model);
  if (model.global_attention_every > 0 && !config.Has("layer_types")) {
    model.global_attention_every = every;
  }
  model.qk_norm = true;
  constexpr double kGlobalTheta = 1e6, kLocalTheta = 1e4;  // the library's
  if (!config.Has("rope_parameters")) {
    model.rope_theta = config.NumberOr("rope_theta", kGlobalTheta);
    model.local_rope_theta = config.NumberOr("rope_local_base_freq", kLocalTheta);
  }
  if (model.attention_window == 0) model.local_rope_theta = 0;
}

// By default half of a head is rotated. The library pairs neighbouring elements; here a pair's
// elements lie half a head apart. The model is the same with the rows of q and k permuted.
void MoreOfGlm(Config& config, ModelSpec& model) {
  model.attention_bias = config.BoolOr("attention_bias", true);
  if (!config.Has("partial_rotary_factor") && !config.Has("rope_parameters")) {
    model.rotary_dim = model.head_dim / 2;
  }
  config.Note(kAdjacentPairs);
}

void MoreOfGlm4(Config& config, ModelSpec& model) {
  MoreOfGlm(config, model);
  model.post_norms = true;
}

// Norms stand behind attention and MLP alone; those of q and k span all heads
// (olmo2/modeling_olmo2.py).
void MoreOfOlmo2(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.pre_norms = false;
  model.post_norms = model.qk_norm = model.qk_norm_whole = true;
}

// Every fourth layer sees all tokens; only these layers have rescaled frequencies.
void MoreOfOlmo3(Config& config, ModelSpec& model) {
  MoreOfOlmo2(config, model);
  const std::int64_t window = config.CountOr("sliding_window", 4096);
  if (!ReadLayerTypes(config, model, window)) {
    model.attention_window = window;
    model.global_attention_every = 4;
  }
  DropWideWindow(model);
  const bool windows = model.attention_window > 0;
  if (windows && model.rope_scaling != RopeScaling::kNone)
    model.local_rope_theta = model.rope_theta;
}

// Attention and MLP read one LayerNorm without a bias; logits are scaled.
void MoreOfCohere(Config& config, ModelSpec& model) {
  model.order = LayerOrder::kParallelOneNorm;
  model.norm_bias = false;
  model.attention_bias = model.output_bias = config.BoolOr("attention_bias", false);
  model.logit_scale = config.NumberOr("logit_scale", 0.0625);
  config.MustBe("use_qk_norm", false, "q and k have no LayerNorm");
  config.Note(kAdjacentPairs);
}

// Every fourth layer sees all tokens and has no positions.
void MoreOfCohere2(Config& config, ModelSpec& model) {
  MoreOfCohere(config, model);
  const std::int64_t window = config.CountOr("sliding_window", 4096);
  const std::int64_t every = config.CountOr("sliding_window_pattern|_sliding_window_pattern", 4);
  if (!ReadLayerTypes(config, model, window)) {
    model.attention_window = window;
    model.global_attention_every = every;
  }
  model.rotate_global = model.global_attention_every == 0;
  DropWideWindow(model);
}

// Every n-th layer has no positions.
void MoreOfSmolLm3(Config& config, ModelSpec& model) {
  MoreOfLlama(config, model);
  config.MustBe("use_sliding_window", false, "all layers see all tokens");
  config.IgnoreIn({"sliding_window", "layer_types"});
  ReadRopelessLayers(config, model);
}

void MoreOfGranite(Config& config, ModelSpec& model) {
  MoreOfLlama(config, model);
  model.embedding_scale = config.NumberOr("embedding_multiplier", 1);
  model.attention_scale = config.NumberOr("attention_multiplier", 1);
  model.logit_scale = 1 / config.NumberOr("logits_scaling", 1);
  if (config.NumberOr("residual_multiplier", 1) != 1) {
    config.Note("residual_multiplier is left out: shape, memory and time are the same");
  }
}

void MoreOfInternLm2(Config& config, ModelSpec& model) {
  model.attention_bias = model.output_bias = config.BoolOr("bias", false);
}

// The attention output's bias follows the MLP's flag (internlm3/modeling_internlm3.py).
void MoreOfInternLm3(Config& config, ModelSpec& model) {
  model.attention_bias = config.BoolOr("qkv_bias", config.BoolOr("attention_bias", false));
  model.output_bias = model.mlp_bias = config.BoolOr("mlp_bias", config.BoolOr("bias", false));
}

}  // namespace foretrain
