#!/usr/bin/env python3
"""Writes a checkpoint of torch.distributed.checkpoint with Megatron's names for a Llama of two layers.

    distributed.py folder OUT   writes OUT on two ranks: weights split by rows or columns, and a state of an optimizer
    distributed.py seed OUT     writes one file that is a description and the chunks that it describes

Element i of tensor t, counted in the order below, is (1000 t + i) / 1024, rounded to bf16 for norms. It made
tests/data/distributed and tests/fuzz/seeds/distributed. Needs torch (written with 2.15).
"""
import dataclasses
import os
import pickle
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as processes
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

LAYERS, HIDDEN, HEADS, GROUPS, WIDTH, FFN, VOCABULARY = 2, 8, 4, 2, 2, 6, 16
PER_LAYER = "decoder.layers."

# Shape and split dimension by name.
TENSORS = {
    "embedding.word_embeddings.weight": ((VOCABULARY, HIDDEN), 0),
    PER_LAYER + "self_attention.linear_qkv.layer_norm_weight": ((LAYERS, HIDDEN), None),
    PER_LAYER + "self_attention.linear_qkv.weight": ((LAYERS, (HEADS + 2 * GROUPS) * WIDTH, HIDDEN), 1),
    PER_LAYER + "self_attention.linear_proj.weight": ((LAYERS, HIDDEN, HEADS * WIDTH), 2),
    PER_LAYER + "mlp.linear_fc1.layer_norm_weight": ((LAYERS, HIDDEN), None),
    PER_LAYER + "mlp.linear_fc1.weight": ((LAYERS, 2 * FFN, HIDDEN), 1),
    PER_LAYER + "mlp.linear_fc2.weight": ((LAYERS, HIDDEN, FFN), 2),
    "decoder.final_layernorm.weight": ((HIDDEN,), None),
    "output_layer.weight": ((VOCABULARY, HIDDEN), 0),
    "optimizer.state.exp_avg.output_layer.weight": ((VOCABULARY, HIDDEN), 0),
}


def on_rank(rank, out):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29517"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {}
    for number, (name, (shape, split)) in enumerate(TENSORS.items()):
        whole = (torch.arange(torch.Size(shape).numel()).view(shape) + 1000 * number) / 1024
        if name.endswith("norm_weight") or name.endswith("layernorm.weight"):
            whole = whole.bfloat16()
        state[name] = distribute_tensor(whole, mesh, [Replicate() if split is None else Shard(split)])
    checkpoint.save(state, checkpoint_id=out)
    dist.destroy_process_group()


def seed(out):
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save({"model.decoder.layers.a.weight": torch.arange(12.0).view(2, 2, 3), "b": torch.zeros(2).half()},
                        checkpoint_id=folder, no_dist=True)
        with open(folder + "/.metadata", "rb") as file:
            described = pickle.load(file)
        with open(folder + "/__0_0.distcp", "rb") as file:
            chunks = file.read()
    places, text = described.storage_data, b""
    while True:  # until the description is as long as the offsets in it say
        begin = len(text)
        moved = {index: dataclasses.replace(place, offset=place.offset + begin) for index, place in places.items()}
        text = pickle.dumps(dataclasses.replace(described, storage_data=moved))
        if len(text) == begin:
            break
    with open(out, "wb") as file:
        file.write(text + chunks)


if __name__ == "__main__":
    command, out = sys.argv[1:]
    processes.spawn(on_rank, (out,), nprocs=2) if command == "folder" else seed(out)
