// Trains a small model of each supported family on one rank and with the transformers library, from
// the same weights under the library's own names.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <ostream>
#include <sstream>
#include <string>

#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"

namespace foretrain {
namespace {

constexpr std::size_t kSteps = 5;
// Relative to a loss or a norm, as in torch_equality_torch_test.cc.
constexpr double kTolerance = 1e-5;

struct Model {
  const char* name;
  const char* config;
};
void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

const Model kModels[] =
    {
        {"GptNeoX",
         R"({"model_type": "gpt_neox", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "rotary_pct": 0.5, "hidden_act": "gelu", "layer_norm_eps": 1e-05})"},
        {"GptJ",
         R"({"model_type": "gptj", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 256, "rotary_dim": 8, "tie_word_embeddings": false, "activation_function": "gelu_new"})"},
        {"Opt",
         R"({"model_type": "opt", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "ffn_dim": 96, "vocab_size": 256, "max_position_embeddings": 40, "word_embed_proj_dim": 64, "tie_word_embeddings": true, "activation_function": "relu", "dropout": 0.0})"},
        {"Phi",
         R"({"model_type": "phi", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "partial_rotary_factor": 0.5, "hidden_act": "gelu_new", "layer_norm_eps": 1e-05})"},
        {"Phi3",
         R"({"model_type": "phi3", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-05, "pad_token_id": 0, "sliding_window": 7})"},
        {"Qwen2",
         R"({"model_type": "qwen2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-05})"},
        {"Qwen3",
         R"({"model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-05, "head_dim": 24})"},
        {"Gemma",
         R"({"model_type": "gemma", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": true, "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-05, "head_dim": 16})"},
        {"Gemma2",
         R"({"model_type": "gemma2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": true, "hidden_act": "silu", "rms_norm_eps": 1e-05, "head_dim": 16, "query_pre_attn_scalar": 20, "attn_logit_softcapping": null, "final_logit_softcapping": 5.0, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "hidden_activation": "gelu_pytorch_tanh"})"},
        {"Gemma3",
         R"({"model_type": "gemma3_text", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": true, "hidden_act": "silu", "rms_norm_eps": 1e-05, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "hidden_activation": "gelu_pytorch_tanh", "rope_parameters": {"full_attention": {"rope_theta": 1000000.0, "rope_type": "default"}, "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"}}})"},
        {"Glm4",
         R"({"model_type": "glm4", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-05, "head_dim": 16, "attention_bias": true, "pad_token_id": 0, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"}})"},
        {"StableLm",
         R"({"model_type": "stablelm", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "layer_norm_eps": 1e-05, "partial_rotary_factor": 0.25, "use_qkv_bias": true})"},
        {"Nemotron",
         R"({"model_type": "nemotron", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "relu2", "norm_eps": 1e-05, "head_dim": 16, "rope_parameters": {"partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"}})"},
        {"StarCoder2",
         R"({"model_type": "starcoder2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": true, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-05, "use_bias": true})"},
        {"Olmo2",
         R"({"model_type": "olmo2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false})"},
        {"Olmo3",
         R"({"model_type": "olmo3", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": false, "rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 1.0, "attention_factor": 1.1}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})"},
        {"Olmoe",
         R"({"model_type": "olmoe", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": false, "router_aux_loss_coef": 0.0})"},
        {"SmolLm3",
         R"({"model_type": "smollm3", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "no_rope_layer_interval": 2, "no_rope_layers": [1, 0, 1]})"},
        {"Cohere",
         R"({"model_type": "cohere", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "layer_norm_eps": 1e-05, "logit_scale": 0.25})"},
        {"Cohere2",
         R"({"model_type": "cohere2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "tie_word_embeddings": true, "layer_norm_eps": 1e-05, "logit_scale": 0.25})"},
        {"MiniMaxM2",
         R"({"model_type": "minimax_m2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}, "router_aux_loss_coef": 0.0})"},
        {"DeepSeekV2Lite",
         R"({"model_type": "deepseek_v2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-06, "moe_intermediate_size": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "router_aux_loss_coef": 0.0, "q_lora_rank": null, "topk_method": "greedy", "norm_topk_prob": false, "routed_scaling_factor": 1.5})"},
        {"DeepSeekV2",
         R"({"model_type": "deepseek_v2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-06, "moe_intermediate_size": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "router_aux_loss_coef": 0.0, "q_lora_rank": 24, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "norm_topk_prob": false, "routed_scaling_factor": 1.5, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8, "beta_slow": 1, "mscale": 0.8, "mscale_all_dim": 1.0}})"},
        {"DeepSeekV3",
         R"({"model_type": "deepseek_v3", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-06, "moe_intermediate_size": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 20, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 4, "first_k_dense_replace": 1, "router_aux_loss_coef": 0.0, "q_lora_rank": 24, "n_group": 4, "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5, "num_nextn_predict_layers": 0, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8, "beta_slow": 1, "mscale": 0.8, "mscale_all_dim": 1.0}})"},
        {"GptOss",
         R"({"model_type": "gpt_oss", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "head_dim": 16, "rms_norm_eps": 1e-05, "num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.0, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "attention_bias": true, "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": false}})"},
        {"Qwen2Moe",
         R"({"model_type": "qwen2_moe", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-06, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": false, "decoder_sparse_step": 1, "mlp_only_layers": [], "router_aux_loss_coef": 0.0, "use_sliding_window": false})"},
        {"GptBigCode",
         R"({"model_type": "gpt_bigcode", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_inner": 96, "n_positions": 64, "vocab_size": 256, "multi_query": true, "tie_word_embeddings": true, "activation_function": "gelu_pytorch_tanh", "layer_norm_epsilon": 1e-05, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0})"},
        {"Gemma2Capped",
         R"({"model_type": "gemma2", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": true, "hidden_act": "silu", "rms_norm_eps": 1e-05, "head_dim": 16, "query_pre_attn_scalar": 20, "attn_logit_softcapping": 0.5, "final_logit_softcapping": 5.0, "sliding_window": 7, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "hidden_activation": "gelu_pytorch_tanh"})"},
        {"LlamaStretched",
         R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}})"},
        {"LlamaLinear",
         R"({"model_type": "llama", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}})"},
        {"Bloom",
         R"({"model_type": "bloom", "n_layer": 2, "hidden_size": 48, "n_head": 6, "vocab_size": 256, "seq_length": 64, "layer_norm_epsilon": 1e-05, "tie_word_embeddings": true})"},
        {"Llama4",
         R"({"model_type": "llama4_text", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "intermediate_size_mlp": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "router_aux_loss_coef": 0.0, "use_qk_norm": true, "attention_chunk_size": 16, "attn_temperature_tuning": true, "floor_scale": 8, "attn_scale": 0.3, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})"},
        {"Llama4EveryLayer",
         R"({"model_type": "llama4_text", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 32, "intermediate_size_mlp": 96, "vocab_size": 256, "max_position_embeddings": 64, "pad_token_id": 0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "num_local_experts": 4, "num_experts_per_tok": 2, "interleave_moe_layer_step": 1, "router_aux_loss_coef": 0.0, "use_qk_norm": false, "attention_chunk_size": 64, "attn_temperature_tuning": false, "no_rope_layers": [1, 0, 1], "rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 16}})"},
        {"Bert", R"({"model_type": "bert", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 64, "type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-05, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "tie_word_embeddings": true})"},
        {"Roberta",
         R"({"model_type": "roberta", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 66, "type_vocab_size": 1, "hidden_act": "gelu", "layer_norm_eps": 1e-05, "pad_token_id": 1, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "tie_word_embeddings": true})"},
        {"T5",
         R"({"model_type": "t5", "num_layers": 3, "num_decoder_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 24, "d_ff": 96, "vocab_size": 256, "n_positions": 64, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "feed_forward_proj": "relu", "layer_norm_epsilon": 1e-06, "dropout_rate": 0.0, "decoder_start_token_id": 0, "tie_word_embeddings": true})"},
        {"T5Gated",
         R"({"model_type": "t5", "num_layers": 2, "num_decoder_layers": 3, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 96, "vocab_size": 256, "n_positions": 64, "feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-06, "dropout_rate": 0.0, "decoder_start_token_id": 0, "tie_word_embeddings": false})"},
        {"Mt5",
         R"({"model_type": "mt5", "num_layers": 2, "num_decoder_layers": 2, "d_model": 64, "num_heads": 4, "d_kv": 16, "d_ff": 96, "vocab_size": 256, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, "feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-06, "dropout_rate": 0.0, "decoder_start_token_id": 0, "tie_word_embeddings": false})"},
        {"Mpt",
         R"({"model_type": "mpt", "n_layers": 2, "d_model": 64, "n_heads": 4, "expansion_ratio": 4, "vocab_size": 256, "max_seq_len": 64, "layer_norm_epsilon": 1e-05, "tie_word_embeddings": true})"},
};

std::string Text() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "line " + std::to_string(i * i) + " of " + std::to_string(i) + "; ";
  }
  return text;
}

class LibraryLosses : public testing::TestWithParam<Model> {};

TEST_P(LibraryLosses, AreThoseOfTheLibrary) {
  if (!HasTransformers()) GTEST_SKIP() << kNoTransformers;
  const TemporaryFolder folder;
  folder.Write("config.json", GetParam().config);
  folder.Write("text", Text());
  const std::string common =
      "--data text --sequence 32 --clip 2.5 --steps " + std::to_string(kSteps);
  const nlohmann::json library = TrainInLibrary(
      folder.path(), "--config config.json --save-init init.safetensors --batch 4 " + common);
  ASSERT_TRUE(library.is_object());
  const ProgramEnd train =
      RunForetrain(folder.path(),
                   "train --json --ranks 1 --model config.json --init init.safetensors "
                   "--global-batch 4 --micro-batch 2 " +
                       common);
  ASSERT_EQ(train.code, 0) << train.errors;
  std::istringstream lines(train.output);
  std::string line;
  double largest = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(std::getline(lines, line));
    const nlohmann::json report = nlohmann::json::parse(line);
    const double loss = report.at("loss"), expected = library.at("losses").at(step);
    const double norm = report.at("gradient_norm"), of = library.at("gradient_norms").at(step);
    largest = std::max({largest, std::fabs(loss / expected - 1), std::fabs(norm / of - 1)});
    EXPECT_NEAR(loss, expected, kTolerance * expected) << "step " << step;
    EXPECT_NEAR(norm, of, 10 * kTolerance * of) << "step " << step;
  }
  std::cout << GetParam().name << ": largest relative difference " << largest << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Families, LibraryLosses, testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain
