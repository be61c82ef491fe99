#include "tests/runtime/equality/feature_models.h"

#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// Parallel attention and MLP, each with its own norm; RoPE on half of a head.
ModelSpec NeoX() {
  ModelSpec model = TinyGpt(false);
  model.positions = PositionKind::kRope;
  model.rotary_dim = 4;
  model.order = LayerOrder::kParallel;
  model.mlp = MlpKind::kGeluErf;
  return model;
}

// Parallel attention and MLP after one shared norm; logits have a bias.
ModelSpec Phi() {
  ModelSpec model = NeoX();
  model.mlp = MlpKind::kGelu;
  model.order = LayerOrder::kParallelOneNorm;
  model.head_bias = true;
  return model;
}

// Norms of query and key heads.
ModelSpec Qwen3() {
  ModelSpec model = TinyLlama();
  model.qk_norm = true;
  return model;
}

// Norms after attention and MLP, gated GELU, scaled embeddings and scores, softcapped logits, and
// two RoPE bases, the first in layers with a window.
ModelSpec Gemma() {
  ModelSpec model = TinyLlama();
  model.mlp = MlpKind::kGeglu;
  model.post_norms = model.qk_norm = model.tied_embeddings = true;
  model.embedding_scale = 1.5;
  model.attention_scale = 0.3;
  model.logit_softcap = 5;
  model.attention_window = 6;
  model.global_attention_every = 2;
  model.local_rope_theta = 100;
  return model;
}

// Norms after attention and MLP, biases of q, k and v, RoPE on half of a head.
ModelSpec Glm4() {
  ModelSpec model = TinyLlama();
  model.post_norms = model.attention_bias = true;
  model.rotary_dim = 4;
  return model;
}

// Norms after attention and MLP alone, and norms over all heads of q and of k.
ModelSpec Olmo2() {
  ModelSpec model = TinyLlama();
  model.pre_norms = false;
  model.post_norms = model.qk_norm = model.qk_norm_whole = true;
  return model;
}

// Attention and MLP beside each other behind one LayerNorm without a bias, scaled logits, a window
// with rotary positions in every other layer, neither in the rest.
ModelSpec Cohere2() {
  ModelSpec model = TinyLlama();
  model.norm = NormKind::kLayerNorm;
  model.norm_bias = false;
  model.order = LayerOrder::kParallelOneNorm;
  model.tied_embeddings = true;
  model.logit_scale = 0.25;
  model.attention_window = 6;
  model.global_attention_every = 2;
  model.rotate_global = false;
  return model;
}

// Two rows before the first position.
ModelSpec Opt() {
  ModelSpec model = TinyGpt(true);
  model.mlp = MlpKind::kRelu;
  model.unused_positions = 2;
  return model;
}

// A norm of the token embeddings.
ModelSpec Bloom() {
  ModelSpec model = TinyGpt(true);
  model.embedding_norm = true;
  return model;
}

// LayerNorm without biases.
ModelSpec Nemotron() {
  ModelSpec model = NeoX();
  model.order = LayerOrder::kSequential;
  model.mlp = MlpKind::kSquaredRelu;
  model.norm_bias = model.attention_bias = model.output_bias = model.mlp_bias = false;
  return model;
}

// Latent attention without low-rank queries, in dense layers only.
ModelSpec LatentDense() {
  ModelSpec model = TinyLatent();
  model.query_rank = 0;
  model.experts = model.experts_per_token = model.expert_ffn_hidden = model.shared_ffn_hidden = 0;
  model.first_dense_layers = model.expert_groups = model.groups_per_token = 0;
  model.expert_scale = 1;
  model.balance_weight = 0;
  model.balance_tokens = 0;
  model.router = RouterKind::kTopKSoftmax;
  return model;
}

// Attention sinks, clamped gates, biases of all linears, scaled RoPE, a window in every second
// layer.
ModelSpec GptOss() {
  ModelSpec model = TinyExperts();
  model.mlp = MlpKind::kClampedSwiglu;
  model.attention_sinks = model.attention_bias = model.output_bias = true;
  model.router_bias = model.expert_bias = true;
  model.shared_ffn_hidden = model.first_dense_layers = 0;
  model.balance_tokens = 4;
  model.attention_window = 6;
  model.global_attention_every = 2;
  model.rope_scaling = RopeScaling::kYarn;
  model.rope_factor = 4;
  model.rope_original = 8;
  model.rope_low = 1;
  model.rope_high = 4;
  model.rope_whole_pairs = false;
  model.rope_magnitude = 1.2;
  return model;
}

// Multi-query attention with biases: tensor-parallel ranks share the one key and value head.
ModelSpec MultiQuery() {
  ModelSpec model = TinyGpt(true);
  model.kv_heads = 1;
  return model;
}

// The shared experts' output is scaled by a gate of its own.
ModelSpec Qwen2Moe() {
  ModelSpec model = TinyExperts();
  model.router = RouterKind::kSoftmaxTopK;
  model.shared_gate = model.attention_bias = true;
  model.balance_tokens = 4;
  return model;
}

// ALiBi and softcapped scores.
ModelSpec Alibi() {
  ModelSpec model = TinyGpt(true);
  model.positions = PositionKind::kAlibi;
  model.attention_softcap = 2;
  model.embedding_norm = true;
  return model;
}

// Attention and MLP beside each other behind one norm, one head of keys and values, a z-loss.
ModelSpec Palm() {
  ModelSpec model = TinyLlama();
  model.order = LayerOrder::kParallelOneNorm;
  model.kv_heads = 1;
  model.z_loss = 0.02;
  return model;
}

// Experts in every second layer, whose weights multiply the inputs; L2 norms of q and k and chunks
// of 8 tokens in all layers but the last, which has no positions and queries that grow every 3
// tokens.
ModelSpec Llama4() {
  ModelSpec model = TinyExperts();
  model.first_dense_layers = 0;
  model.expert_every = model.experts_per_token = 2;
  model.router = RouterKind::kTopKSigmoid;
  model.weigh_expert_inputs = model.qk_l2_norm = true;
  model.balance_tokens = 4;
  model.attention_chunk = 8;
  model.global_attention_every = 4;
  model.rotate_global = false;
  model.query_temperature = 0.5;
  model.query_temperature_floor = 3;
  return model;
}

// An encoder: attention to all tokens, norms behind the residuals, token types, a transform before
// the logits.
ModelSpec Bert() {
  ModelSpec model = TinyGpt(true);
  model.mlp = MlpKind::kGeluErf;
  model.causal = false;
  model.residual_after_norm = model.head_transform = model.head_bias = true;
  model.token_types = 2;
  return model;
}

// An encoder-decoder: relative positions, plain scores, cross-attention, a scaled tied head.
ModelSpec T5() {
  ModelSpec model = TinyLlama();
  model.layers = model.encoder_layers = 2;
  model.kv_heads = model.heads;
  model.mlp = MlpKind::kRelu;
  model.positions = PositionKind::kRelative;
  model.relative_buckets = 6;
  model.relative_max_distance = 9;
  model.attention_scale = 1;
  model.tied_embeddings = true;
  model.logit_scale = 0.2;
  return model;
}

// The same with a gated GELU, a head of its own, and stacks of unequal depth.
ModelSpec GatedT5() {
  ModelSpec model = T5();
  model.layers = 3;
  model.encoder_layers = 1;
  model.mlp = MlpKind::kGeglu;
  model.tied_embeddings = false;
  model.logit_scale = 1;
  return model;
}

}  // namespace

std::vector<FeatureModel> FeatureModels() {
  return {{"NeoX", NeoX()},
          {"Phi", Phi()},
          {"Qwen3", Qwen3()},
          {"Gemma", Gemma()},
          {"Glm4", Glm4()},
          {"Opt", Opt()},
          {"Bloom", Bloom()},
          {"Nemotron", Nemotron()},
          {"LatentDense", LatentDense()},
          {"GptOss", GptOss()},
          {"Alibi", Alibi()},
          {"MultiQuery", MultiQuery()},
          {"Qwen2Moe", Qwen2Moe()},
          {"Palm", Palm()},
          {"Olmo2", Olmo2()},
          {"Cohere2", Cohere2()},
          {"Llama4", Llama4()},
          {"Bert", Bert()},
          {"T5", T5()},
          {"GatedT5", GatedT5()}};
}

}  // namespace foretrain
