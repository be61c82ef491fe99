#!/usr/bin/env python3
"""Saves a distributed checkpoint with Megatron-core on CPU ranks, and reads it. Prints one JSON object.

save CONFIG OUT TP PP EP  makes a random model of a config.json (Llama, Qwen 2 and 3, Mixtral) on
                          TP x PP x EP ranks and saves it to OUT, as --ckpt-format torch_dist does
loss CONFIG FOLDER DATA   loads FOLDER on one rank; prints `loss` over the first 4 sequences of 32 bytes of DATA

Needs torch, megatron-core and psutil (written with 2.15, 0.16.1 and 7.1).
"""
import contextlib
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

import weights


def model_of(fields, tp, pp, ep):
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig

    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep)
    kind = fields["model_type"]
    heads, layers = fields["num_attention_heads"], fields["num_hidden_layers"]
    options = {
        "num_layers": layers, "hidden_size": fields["hidden_size"], "num_attention_heads": heads,
        "num_query_groups": fields.get("num_key_value_heads", heads), "ffn_hidden_size": fields["intermediate_size"],
        "kv_channels": fields.get("head_dim"), "layernorm_epsilon": fields["rms_norm_eps"], "normalization": "RMSNorm",
        "gated_linear_unit": True, "activation_func": torch.nn.functional.silu, "add_bias_linear": False,
        "add_qkv_bias": kind == "qwen2", "qk_layernorm": kind == "qwen3", "attention_dropout": 0.0,
        "hidden_dropout": 0.0, "use_cpu_initialization": True, "tensor_model_parallel_size": tp,
        "pipeline_model_parallel_size": pp, "expert_model_parallel_size": ep, "pipeline_dtype": torch.float32,
    }
    if kind == "mixtral":
        options |= {"num_moe_experts": fields["num_local_experts"], "moe_router_topk": fields["num_experts_per_tok"],
                    "moe_ffn_hidden_size": fields["intermediate_size"]}
    config = TransformerConfig(**options)
    torch.manual_seed(1)
    model = GPTModel(
        config, get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization="RMSNorm"),
        vocab_size=fields["vocab_size"], max_sequence_length=64, position_embedding_type="rope",
        rotary_base=10000, share_embeddings_and_output_weights=fields.get("tie_word_embeddings", False),
        pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage())
    with torch.no_grad():  # a missing vector shows
        for parameter in model.parameters():
            if parameter.dim() == 1:
                torch.manual_seed(parameter.numel())
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return model.eval()


def loss_of(model, data):
    ids, targets = weights.tokens(data)
    length = ids.size(1)
    mask = torch.ones(1, 1, length, length).triu(1).bool()
    positions = torch.arange(length).expand_as(ids)
    with torch.no_grad():
        return model(ids, positions, mask, labels=targets.view_as(ids)).mean().item()


def on_rank(rank, world, port, command, fields, folder, data, tp, pp, ep):
    from megatron.core import dist_checkpointing
    from megatron.core.tensor_parallel.random import get_cuda_rng_tracker
    from megatron.core.transformer.moe import moe_utils

    # Without a GPU there is nothing to wait for, and no random state of its own; without Transformer Engine no GEMM of it.
    moe_utils.te_general_gemm = None
    get_cuda_rng_tracker().fork = lambda *unused: contextlib.nullcontext()
    torch.cuda.synchronize = lambda *unused: None
    torch.cuda.current_device = lambda: "cpu"
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(world)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = model_of(fields, tp, pp, ep)
    if command == "save":
        if rank == 0:
            os.makedirs(folder)
        dist.barrier()
        dist_checkpointing.save(model.sharded_state_dict(), folder)
    else:
        loaded = dist_checkpointing.load(model.sharded_state_dict(), folder)
        model.load_state_dict({name: tensor for name, tensor in loaded.items() if torch.is_tensor(tensor)}, strict=False)
        print(json.dumps({"loss": loss_of(model, data)}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    command, config, folder, *more = sys.argv[1:]
    with open(config) as file:
        fields = json.load(file)
    data = more[0] if command == "loss" else None
    tp, pp, ep = map(int, more) if command == "save" else (1, 1, 1)
    world = tp * pp * ep
    processes.spawn(on_rank, (world, free_port(), command, fields, folder, data, tp, pp, ep), nprocs=world)
    if command == "save":
        print("{}")


if __name__ == "__main__":
    main()
