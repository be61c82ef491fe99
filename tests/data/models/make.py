"""Writes parameters.jsonl: for each model below the config.json that transformers writes and the number of
trainable parameters, counted on modules on the meta device (nothing is loaded).

    python3 make.py > parameters.jsonl        # needs torch and transformers; written with 5.23.0 and 5.24.0

Sizes are those of published checkpoints. Names that begin with "small-" test the count of an option that no large
row has. `skipped` sums the parameters of submodules that a decoder's config.json does not ask for, such as other
heads.
"""

import json
import sys
import warnings

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()

MODELS = [
    ("gpt2", "gpt2", {}),
    ("gpt2-xl", "gpt2", dict(n_embd=1600, n_layer=48, n_head=25)),
    ("small-gpt2-inner", "gpt2", dict(n_embd=64, n_layer=2, n_head=4, n_inner=100, vocab_size=101,
                                      n_positions=32, tie_word_embeddings=False)),
    ("gpt-neox-20b", "gpt_neox", dict(hidden_size=6144, num_hidden_layers=44, num_attention_heads=64,
                                      intermediate_size=24576, vocab_size=50432, rotary_pct=0.25,
                                      hidden_act="gelu_fast", max_position_embeddings=2048)),
    ("pythia-1.4b", "gpt_neox", dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=16,
                                     intermediate_size=8192, vocab_size=50304, rotary_pct=0.25,
                                     max_position_embeddings=2048)),
    ("small-gpt-neox-sequential", "gpt_neox", dict(hidden_size=64, num_hidden_layers=2,
                                                   num_attention_heads=4, intermediate_size=96,
                                                   vocab_size=101, use_parallel_residual=False,
                                                   attention_bias=False, tie_word_embeddings=True)),
    ("gpt-j-6b", "gptj", {}),
    ("opt-125m", "opt", {}),
    ("opt-6.7b", "opt", dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
                             ffn_dim=16384, word_embed_proj_dim=4096)),
    ("bloom-7b1", "bloom", dict(hidden_size=4096, n_layer=30, n_head=32, vocab_size=250880)),
    ("bloom-176b", "bloom", dict(hidden_size=14336, n_layer=70, n_head=112, vocab_size=250880)),
    ("mpt-7b", "mpt", dict(d_model=4096, n_heads=32, n_layers=32, vocab_size=50432, max_seq_len=2048)),
    ("small-mpt-learned", "mpt", dict(d_model=64, n_heads=4, n_layers=2, vocab_size=101, max_seq_len=32,
                                      expansion_ratio=4)),
    ("falcon-7b", "falcon", dict(hidden_size=4544, num_hidden_layers=32, num_attention_heads=71,
                                 vocab_size=65024, multi_query=True, parallel_attn=True, alibi=False,
                                 new_decoder_architecture=False, bias=False)),
    ("falcon-40b", "falcon", dict(hidden_size=8192, num_hidden_layers=60, num_attention_heads=128,
                                  num_kv_heads=8, vocab_size=65024, new_decoder_architecture=True,
                                  alibi=False, bias=False)),
    ("starcoder", "gpt_bigcode", dict(n_embd=6144, n_layer=40, n_head=48, n_inner=24576, n_positions=8192,
                                      vocab_size=49152, multi_query=True)),
    ("starcoder2-3b", "starcoder2", {}),
    ("llama-2-7b", "llama", dict(vocab_size=32000, max_position_embeddings=4096)),
    ("llama-3.1-8b", "llama", dict(vocab_size=128256, num_key_value_heads=8, intermediate_size=14336,
                                   max_position_embeddings=131072,
                                   rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0,
                                                        low_freq_factor=1.0, high_freq_factor=4.0,
                                                        original_max_position_embeddings=8192))),
    ("llama-3.2-1b", "llama", dict(vocab_size=128256, hidden_size=2048, num_hidden_layers=16,
                                   num_attention_heads=32, num_key_value_heads=8, head_dim=64,
                                   intermediate_size=8192, tie_word_embeddings=True)),
    ("small-llama-biases", "llama", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, intermediate_size=96, vocab_size=101,
                                         attention_bias=True, mlp_bias=False)),
    ("small-llama-mlp-biases", "llama", dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                             head_dim=24, intermediate_size=96, vocab_size=101,
                                             attention_bias=False, mlp_bias=True)),
    ("mistral-7b", "mistral", dict(sliding_window=None)),
    ("mixtral-8x7b", "mixtral", {}),
    ("mixtral-8x22b", "mixtral", dict(hidden_size=6144, num_hidden_layers=56, num_attention_heads=48,
                                      num_key_value_heads=8, intermediate_size=16384, vocab_size=32768)),
    ("qwen2-7b", "qwen2", dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
                               num_key_value_heads=4, intermediate_size=18944, vocab_size=152064)),
    ("qwen2-0.5b", "qwen2", dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14,
                                 num_key_value_heads=2, intermediate_size=4864, tie_word_embeddings=True)),
    ("qwen2-57b-a14b", "qwen2_moe", dict(hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
                                         num_key_value_heads=4, intermediate_size=18944, num_experts=64,
                                         num_experts_per_tok=8, moe_intermediate_size=2560,
                                         shared_expert_intermediate_size=20480)),
    ("qwen1.5-moe-a2.7b", "qwen2_moe", dict(num_key_value_heads=16)),
    ("qwen3-8b", "qwen3", dict(num_key_value_heads=8, intermediate_size=12288, num_hidden_layers=36,
                               max_position_embeddings=40960)),
    ("qwen3-0.6b", "qwen3", dict(hidden_size=1024, num_hidden_layers=28, num_attention_heads=16,
                                 num_key_value_heads=8, intermediate_size=3072, tie_word_embeddings=True)),
    ("qwen3-30b-a3b", "qwen3_moe", dict(hidden_size=2048, num_hidden_layers=48, num_attention_heads=32,
                                        num_key_value_heads=4, head_dim=128, intermediate_size=6144,
                                        num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768,
                                        norm_topk_prob=True)),
    ("qwen3-235b-a22b", "qwen3_moe", dict(hidden_size=4096, num_hidden_layers=94, num_attention_heads=64,
                                          num_key_value_heads=4, head_dim=128, intermediate_size=12288,
                                          num_experts=128, num_experts_per_tok=8,
                                          moe_intermediate_size=1536, norm_topk_prob=True)),
    ("gemma-7b", "gemma", {}),
    ("gemma-2b", "gemma", dict(hidden_size=2048, num_hidden_layers=18, num_attention_heads=8,
                               num_key_value_heads=1, intermediate_size=16384)),
    ("gemma2-2b", "gemma2", {}),
    ("gemma2-27b", "gemma2", dict(hidden_size=4608, num_hidden_layers=46, num_attention_heads=32,
                                  num_key_value_heads=16, head_dim=128, intermediate_size=36864,
                                  query_pre_attn_scalar=144)),
    ("gemma3-1b", "gemma3_text", dict(vocab_size=262144, hidden_size=1152, num_hidden_layers=26,
                                      num_attention_heads=4, num_key_value_heads=1, head_dim=256,
                                      intermediate_size=6912, sliding_window=512,
                                      max_position_embeddings=32768)),
    ("phi-1.5", "phi", {}),
    ("phi-2", "phi", dict(hidden_size=2560, num_hidden_layers=32, num_attention_heads=32,
                          intermediate_size=10240, partial_rotary_factor=0.4)),
    ("phi-3-mini", "phi3", dict(sliding_window=2047)),
    ("phi-4", "phi3", dict(hidden_size=5120, num_hidden_layers=40, num_attention_heads=40,
                           num_key_value_heads=10, intermediate_size=17920, vocab_size=100352,
                           max_position_embeddings=16384, pad_token_id=0)),
    ("glm-4-9b", "glm", {}),
    ("glm-4-0414-9b", "glm4", {}),
    ("glm-4-0414-32b", "glm4", dict(hidden_size=6144, num_hidden_layers=61, num_attention_heads=48,
                                    num_key_value_heads=8, intermediate_size=23040,
                                    attention_bias=False)),
    ("glm-4.5-air", "glm4_moe", dict(attention_bias=True, head_dim=128)),
    ("internlm3-8b", "internlm3", {}),
    ("deepseek-v2", "deepseek_v2", dict(hidden_size=5120, num_hidden_layers=60, num_attention_heads=128,
                                        num_key_value_heads=128, intermediate_size=12288,
                                        moe_intermediate_size=1536, n_routed_experts=160,
                                        n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1,
                                        q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128,
                                        qk_rope_head_dim=64, v_head_dim=128, vocab_size=102400, n_group=8,
                                        topk_group=3, topk_method="group_limited_greedy",
                                        routed_scaling_factor=16.0, norm_topk_prob=False)),
    ("deepseek-v2-lite", "deepseek_v2", dict(hidden_size=2048, num_hidden_layers=27, num_attention_heads=16,
                                             num_key_value_heads=16, intermediate_size=10944,
                                             moe_intermediate_size=1408, n_routed_experts=64,
                                             n_shared_experts=2, num_experts_per_tok=6,
                                             first_k_dense_replace=1, q_lora_rank=None, kv_lora_rank=512,
                                             qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                                             vocab_size=102400, n_group=1, topk_group=1,
                                             topk_method="greedy", routed_scaling_factor=1.0,
                                             norm_topk_prob=False)),
    ("deepseek-v3", "deepseek_v3", {}),
    ("gpt-oss-20b", "gpt_oss", dict(num_hidden_layers=24, num_local_experts=32)),
    ("gpt-oss-120b", "gpt_oss", {}),
    ("granite-3-8b", "granite", dict(hidden_size=4096, num_hidden_layers=40, num_attention_heads=32,
                                     num_key_value_heads=8, intermediate_size=12800, vocab_size=49155,
                                     tie_word_embeddings=True, embedding_multiplier=12.0,
                                     logits_scaling=16.0, residual_multiplier=0.22,
                                     attention_multiplier=0.0078125)),
    ("nemotron-4-15b", "nemotron", dict(vocab_size=256000, hidden_size=6144, num_hidden_layers=32,
                                        num_attention_heads=48, num_key_value_heads=8,
                                        intermediate_size=24576, head_dim=128)),
    ("olmo2-7b", "olmo2", dict(vocab_size=100352, max_position_embeddings=4096, rms_norm_eps=1e-6,
                               rope_parameters=dict(rope_type="default", rope_theta=500000.0))),
    ("olmo2-32b", "olmo2", dict(vocab_size=100352, hidden_size=5120, num_hidden_layers=64,
                                num_attention_heads=40, num_key_value_heads=8, intermediate_size=27648,
                                max_position_embeddings=4096, rms_norm_eps=1e-6)),
    ("olmo3-32b", "olmo3", dict(vocab_size=100278, hidden_size=5120, num_hidden_layers=64,
                                num_attention_heads=40, num_key_value_heads=8, intermediate_size=27648,
                                max_position_embeddings=65536, rms_norm_eps=1e-6,
                                rope_scaling=dict(rope_type="yarn", factor=8.0, beta_fast=32, beta_slow=1,
                                                  attention_factor=1.2079441541679836,
                                                  original_max_position_embeddings=8192))),
    ("olmoe-1b-7b", "olmoe", dict(intermediate_size=1024)),
    ("smollm3-3b", "smollm3", dict(max_position_embeddings=65536)),
    ("command-r-35b", "cohere", dict(max_position_embeddings=131072,
                                     rope_parameters=dict(rope_type="default", rope_theta=8000000.0))),
    ("command-r7b", "cohere2", dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
                                    num_key_value_heads=8, intermediate_size=14336, logit_scale=0.25,
                                    max_position_embeddings=132096, sliding_window=4096,
                                    rope_parameters=dict(rope_type="default", rope_theta=50000.0))),
    ("phi-3.5-moe", "phimoe", dict(attention_bias=True, lm_head_bias=True, sliding_window=131072)),
    ("minimax-m2", "minimax_m2", dict(partial_rotary_factor=0.5)),
    ("dbrx", "dbrx", dict(d_model=6144, n_heads=48, n_layers=40, max_seq_len=32768, vocab_size=100352,
                          attn_config=dict(kv_n_heads=8, clip_qkv=8, rope_theta=500000.0),
                          ffn_config=dict(ffn_hidden_size=10752, moe_num_experts=16, moe_top_k=4,
                                          moe_loss_weight=0.05))),
    ("stablelm-3b", "stablelm", dict(hidden_size=2560, num_hidden_layers=32, num_attention_heads=32,
                                     num_key_value_heads=32, intermediate_size=6912, vocab_size=50304,
                                     use_qkv_bias=False)),
]


def main():
    for name, architecture, fields in MODELS:
        config = AutoConfig.for_model(architecture, **fields)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        config.architectures = [type(model).__name__]
        row = {"name": name, "parameters": parameters, "config": json.loads(config.to_json_string())}
        print(json.dumps(row), flush=True)
        print(name, parameters, file=sys.stderr)


if __name__ == "__main__":
    main()
