#include "sim/config/model/import/families.h"

#include <vector>

#include "sim/config/model/import/own_parts.h"

namespace foretrain {
namespace {

// GPT-2's defaults: LayerNorm, an ungated MLP, biases everywhere, learned positions, tied
// embeddings.
ModelSpec Gpt() { return {}; }

// GPT with other positions, and with or without tied embeddings.
ModelSpec GptWith(PositionKind positions, bool tied) {
  ModelSpec model;
  model.positions = positions;
  model.tied_embeddings = tied;
  return model;
}

// Llama's defaults: RMSNorm, a gated MLP, no biases, rotary positions, an untied head.
ModelSpec Llama() {
  ModelSpec model;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = model.tied_embeddings = false;
  model.norm_epsilon = 1e-6;
  return model;
}

// A missing epsilon or rotary base in a config file means the library's default, which differs
// between families.
ModelSpec LlamaWith(double epsilon) {
  ModelSpec model = Llama();
  model.norm_epsilon = epsilon;
  return model;
}

// Gemma's defaults. The library adds 1 to the weights of these norms (gemma/modeling_gemma.py).
ModelSpec Gemma() {
  ModelSpec model = Llama();
  model.mlp = MlpKind::kGeglu;
  model.tied_embeddings = true;
  return model;
}

// Names of GPT-2's config fields; an empty name means that the family has no such field.
FieldNames GptNames() {
  return {.layers = "n_layer",
          .hidden = "n_embd",
          .heads = "n_head",
          .kv_heads = "",
          .ffn = "n_inner",
          .max_sequence = "n_positions",
          .epsilon = "layer_norm_epsilon",
          .activation = "activation_function"};
}

// One row per model_type. A row gives what all models of the family share; `more` reads the rest.
std::vector<Family> MakeFamilies() {
  constexpr std::string_view kLayerNormEps = "layer_norm_eps", kGelu = "gelu";
  ModelSpec neox = GptWith(PositionKind::kRope, false);
  ModelSpec opt = Gpt();
  opt.mlp = MlpKind::kRelu;
  ModelSpec mpt = GptWith(PositionKind::kAlibi, true);
  mpt.mlp = MlpKind::kGeluErf;
  ModelSpec stable = Llama();
  stable.norm = NormKind::kLayerNorm;
  stable.norm_epsilon = 1e-5;
  ModelSpec nemotron = GptWith(PositionKind::kRope, false);
  nemotron.rotary_dim = 0;
  ModelSpec phi = GptWith(PositionKind::kRope, false);
  ModelSpec cohere = stable;
  cohere.tied_embeddings = true;
  ModelSpec cohere1 = cohere;
  cohere1.rope_theta = 5e5;
  ModelSpec smol = Llama();
  smol.tied_embeddings = true;
  smol.rope_theta = 2e6;
  ModelSpec olmo3 = LlamaWith(1e-5);
  olmo3.rope_theta = 5e5;
  ModelSpec phi_moe = stable;
  phi_moe.rope_theta = 1e6;
  ModelSpec mini_max = Llama();
  mini_max.rope_theta = 5e6;
  const ModelSpec& dbrx = stable;
  ModelSpec llama4 = LlamaWith(1e-5);
  llama4.rope_theta = 5e5;
  ModelSpec bert = Gpt();
  bert.mlp = MlpKind::kGeluErf;
  bert.norm_epsilon = 1e-12;
  bert.causal = false;
  bert.residual_after_norm = bert.head_transform = bert.head_bias = true;
  ModelSpec t5 = Llama();
  t5.mlp = MlpKind::kRelu;
  t5.positions = PositionKind::kRelative;
  t5.tied_embeddings = true;
  ModelSpec mt5 = t5;
  mt5.mlp = MlpKind::kGeglu;
  mt5.tied_embeddings = false;
  const FieldNames of_t5 = {.layers = "num_decoder_layers|num_layers",
                            .hidden = "d_model",
                            .heads = "num_heads",
                            .kv_heads = "",
                            .head_dim = "d_kv",
                            .ffn = "d_ff",
                            .max_sequence = "n_positions",
                            .epsilon = "layer_norm_epsilon",
                            .activation = ""};
  return {
      {.type = "gpt2",
       .base = Gpt(),
       .names = GptNames(),
       .activation = "gelu_new",
       .four_hidden = true,
       .more = MoreOfGpt2},
      {.type = "gpt_bigcode",
       .base = Gpt(),
       .names = GptNames(),
       .activation = "gelu_pytorch_tanh",
       .four_hidden = true,
       .more = MoreOfGptBigCode},
      {.type = "gptj",
       .base = GptWith(PositionKind::kRope, false),
       .names = GptNames(),
       .activation = "gelu_new",
       .four_hidden = true,
       .more = MoreOfGptJ},
      {.type = "gpt_neox",
       .base = neox,
       .names = {.kv_heads = "", .epsilon = kLayerNormEps},
       .activation = kGelu,
       .more = MoreOfGptNeoX},
      {.type = "opt",
       .base = opt,
       .names =
           {.kv_heads = "", .ffn = "ffn_dim", .epsilon = "", .activation = "activation_function"},
       .activation = "relu",
       .more = MoreOfOpt},
      {.type = "bloom",
       .base = GptWith(PositionKind::kAlibi, true),
       .names = {.layers = "n_layer|num_hidden_layers",
                 .hidden = "hidden_size|n_embed",
                 .heads = "n_head|num_attention_heads",
                 .kv_heads = "",
                 .ffn = "",
                 .max_sequence = "seq_length",
                 .epsilon = "layer_norm_epsilon",
                 .activation = ""},
       .four_hidden = true,
       .max_sequence = 2048,
       .more = MoreOfBloom},
      {.type = "mpt",
       .base = mpt,
       .names = {.layers = "n_layers",
                 .hidden = "d_model",
                 .heads = "n_heads",
                 .kv_heads = "",
                 .ffn = "",
                 .max_sequence = "max_seq_len",
                 .epsilon = "layer_norm_epsilon",
                 .activation = ""},
       .four_hidden = true,
       .more = MoreOfMpt},
      {.type = "falcon",
       .base = GptWith(PositionKind::kRope, true),
       .names = {.layers = "num_hidden_layers|n_layer",
                 .heads = "num_attention_heads|n_head",
                 .kv_heads = "",
                 .ffn = "ffn_hidden_size",
                 .epsilon = "layer_norm_epsilon",
                 .activation = "activation"},
       .activation = kGelu,
       .four_hidden = true,
       .max_sequence = 2048,
       .more = MoreOfFalcon},
      {.type = "starcoder2",
       .base = GptWith(PositionKind::kRope, true),
       .names = {.epsilon = "norm_epsilon"},
       .activation = "gelu_pytorch_tanh",
       .needs_kv_heads = true,
       .more = MoreOfStarCoder2},
      {.type = "stablelm",
       .base = stable,
       .names = {.epsilon = kLayerNormEps},
       .more = MoreOfStableLm},
      {.type = "nemotron",
       .base = nemotron,
       .names = {.epsilon = "norm_eps"},
       .activation = "relu2",
       .more = MoreOfNemotron},
      {.type = "phi",
       .base = phi,
       .names = {.epsilon = kLayerNormEps},
       .activation = "gelu_new",
       .more = MoreOfPhi},
      {.type = "phi3", .base = LlamaWith(1e-5), .more = MoreOfPhi3},
      {.type = "llama", .base = Llama(), .more = MoreOfLlama},
      {.type = "mistral", .base = Llama(), .needs_kv_heads = true, .more = MoreOfMistral},
      {.type = "mixtral", .base = Llama(), .needs_kv_heads = true, .more = MoreOfMixtral},
      {.type = "qwen2", .base = Llama(), .needs_kv_heads = true, .more = MoreOfQwen2},
      {.type = "qwen2_moe", .base = Llama(), .needs_kv_heads = true, .more = MoreOfQwen2Moe},
      {.type = "qwen3", .base = Llama(), .needs_kv_heads = true, .more = MoreOfQwen3},
      {.type = "qwen3_moe", .base = Llama(), .needs_kv_heads = true, .more = MoreOfQwen3Moe},
      {.type = "gemma",
       .base = Gemma(),
       .names = {.activation = ""},
       .needs_kv_heads = true,
       .more = MoreOfGemma},
      {.type = "gemma2",
       .base = Gemma(),
       .names = {.activation = "hidden_activation"},
       .activation = "gelu_pytorch_tanh",
       .needs_kv_heads = true,
       .more = MoreOfGemma2},
      {.type = "gemma3_text",
       .base = Gemma(),
       .names = {.activation = "hidden_activation"},
       .activation = "gelu_pytorch_tanh",
       .needs_kv_heads = true,
       .more = MoreOfGemma3},
      {.type = "glm", .base = LlamaWith(1.5625e-7), .needs_kv_heads = true, .more = MoreOfGlm},
      {.type = "glm4", .base = LlamaWith(1.5625e-7), .needs_kv_heads = true, .more = MoreOfGlm4},
      {.type = "glm4_moe", .base = LlamaWith(1e-5), .needs_kv_heads = true, .more = MoreOfGlm4Moe},
      {.type = "granite", .base = Llama(), .needs_kv_heads = true, .more = MoreOfGranite},
      {.type = "olmo2", .base = LlamaWith(1e-5), .more = MoreOfOlmo2},
      {.type = "olmo3", .base = olmo3, .more = MoreOfOlmo3},
      {.type = "olmoe", .base = LlamaWith(1e-5), .more = MoreOfOlmoe},
      {.type = "smollm3", .base = smol, .needs_kv_heads = true, .more = MoreOfSmolLm3},
      {.type = "cohere",
       .base = cohere1,
       .names = {.epsilon = kLayerNormEps},
       .more = MoreOfCohere},
      {.type = "cohere2",
       .base = cohere,
       .names = {.epsilon = kLayerNormEps},
       .more = MoreOfCohere2},
      {.type = "phimoe", .base = phi_moe, .needs_kv_heads = true, .more = MoreOfPhiMoe},
      {.type = "minimax_m2", .base = mini_max, .needs_kv_heads = true, .more = MoreOfMiniMaxM2},
      {.type = "dbrx",
       .base = dbrx,
       .names = {.layers = "n_layers",
                 .hidden = "d_model",
                 .heads = "n_heads",
                 .kv_heads = "",
                 .ffn = "",
                 .max_sequence = "max_seq_len",
                 .epsilon = "",
                 .activation = ""},
       .four_hidden = true,
       .more = MoreOfDbrx},
      {.type = "llama4_text",
       .base = llama4,
       .names = {.ffn = "intermediate_size_mlp"},
       .needs_kv_heads = true,
       .more = MoreOfLlama4},
      {.type = "bert",
       .base = bert,
       .names = {.kv_heads = "", .epsilon = kLayerNormEps},
       .activation = kGelu,
       .more = MoreOfBert},
      {.type = "roberta",
       .base = bert,
       .names = {.kv_heads = "", .epsilon = kLayerNormEps},
       .activation = kGelu,
       .more = MoreOfRoberta},
      {.type = "xlm-roberta",
       .base = bert,
       .names = {.kv_heads = "", .epsilon = kLayerNormEps},
       .activation = kGelu,
       .more = MoreOfRoberta},
      {.type = "t5",
       .base = t5,
       .names = of_t5,
       .has_decoder_too = true,
       .max_sequence = 512,
       .more = MoreOfT5},
      {.type = "mt5",
       .base = mt5,
       .names = of_t5,
       .has_decoder_too = true,
       .max_sequence = 512,
       .more = MoreOfMt5},
      {.type = "internlm2",
       .base = LlamaWith(1e-5),
       .needs_kv_heads = true,
       .more = MoreOfInternLm2},
      {.type = "internlm3",
       .base = LlamaWith(1e-5),
       .needs_kv_heads = true,
       .more = MoreOfInternLm3},
      {.type = "deepseek_v2", .base = Llama(), .more = MoreOfDeepSeekV2},
      {.type = "deepseek_v3", .base = Llama(), .more = MoreOfDeepSeekV3},
      // Its configuration is that of DeepSeek-V3 under another name.
      {.type = "kimi_k2", .base = Llama(), .more = MoreOfDeepSeekV3},
      {.type = "gpt_oss",
       .base = LlamaWith(1e-5),
       .names = {.activation = ""},
       .needs_kv_heads = true,
       .more = MoreOfGptOss},
  };
}

}  // namespace

// Built once: rows own strings and lists, so they cannot be constexpr.
std::span<const Family> Families() {
  static const std::vector<Family> families = MakeFamilies();
  return families;
}

}  // namespace foretrain
