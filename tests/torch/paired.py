"""Trains a small GPT or Llama on the CPU under torch.profiler, writes the trace, and prints which part of the model each operator serves.

paired.py TRACE gpt|llama [ddp|fsdp] prints one JSON object: "ops" lists [name, start, end, part] of the operators, in nanoseconds from the first
step on; "part" is an op's name in a forecast, with ".grad" in the backward pass, or "update". Ranges around each part tell it in the
forward pass. Autograd's sequence numbers carry it to the backward pass. With ddp or fsdp two ranks train with gloo, in TRACE0 and TRACE1,
and "ops" are those of rank 0.
"""
import bisect
import json
import os
import sys
from decimal import Decimal

import torch
import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.multiprocessing
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

HIDDEN, HEADS, LAYERS, VOCAB, LENGTH, BATCH = 256, 4, 4, 4096, 256, 4
RANKS = 2
MARK = "as "


def part(name):
    return record_function(MARK + name)


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Block(nn.Module):
    def __init__(self, llama):
        super().__init__()
        self.llama = llama
        norm = RmsNorm if llama else lambda: nn.LayerNorm(HIDDEN)
        inner = 704 if llama else 4 * HIDDEN
        self.norm1, self.norm2 = norm(), norm()
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN, bias=not llama), nn.Linear(HIDDEN, HIDDEN, bias=not llama)
        self.up = nn.Linear(HIDDEN, (2 if llama else 1) * inner, bias=not llama)
        self.down = nn.Linear(inner, HIDDEN, bias=not llama)
        frequency = 1e4 ** (-torch.arange(0, HIDDEN // HEADS, 2) / (HIDDEN // HEADS))
        angle = torch.arange(LENGTH)[:, None] * torch.cat((frequency, frequency))[None]
        self.cos, self.sin = angle.cos(), angle.sin()

    def forward(self, x):
        batch, length, _ = x.shape
        with part("norm1"):
            y = self.norm1(x)
        with part("attention.qkv"):
            y = self.qkv(y)
        q, k, v = (z.view(batch, length, HEADS, HIDDEN // HEADS).transpose(1, 2) for z in y.chunk(3, -1))
        if self.llama:
            with part("attention.rope"):
                q, k = rotate(q, self.cos, self.sin), rotate(k, self.cos, self.sin)
        with part("attention.core"):
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            a = a.transpose(1, 2).reshape(batch, length, HIDDEN)
        with part("attention.out"):
            a = self.out(a)
        with part("attention.residual"):
            x = x + a
        with part("norm2"):
            y = self.norm2(x)
        with part("mlp.up"):
            y = self.up(y)
        if self.llama:
            with part("mlp.swiglu"):
                gate, y = y.chunk(2, -1)
                y = nn.functional.silu(gate) * y
        else:
            with part("mlp.gelu"):
                y = nn.functional.gelu(y)
        with part("mlp.down"):
            y = self.down(y)
        with part("mlp.residual"):
            return x + y


class Model(nn.Module):
    def __init__(self, llama):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, HIDDEN)
        self.positions = None if llama else nn.Embedding(LENGTH, HIDDEN)
        self.blocks = nn.ModuleList(Block(llama) for _ in range(LAYERS))
        self.norm = RmsNorm() if llama else nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, x, targets):
        with part("embedding"):
            y = self.tokens(x)
            if self.positions is not None:
                y = y + self.positions.weight
        for block in self.blocks:
            y = block(y)
        with part("head.norm"):
            y = self.norm(y)
        with part("head.logits"):
            y = self.head(y)
        with part("head.loss"):
            return nn.functional.cross_entropy(y.flatten(0, 1), targets.flatten())


class Ranges:
    """Finds the innermost range of one thread around a moment."""

    def __init__(self, events):
        self.events = sorted(events, key=lambda e: (e["tid"], e["ts"], -e["dur"]))
        self.keys = [(e["tid"], e["ts"]) for e in self.events]

    def around(self, event):
        at = bisect.bisect_right(self.keys, (event["tid"], event["ts"]))
        for other in reversed(self.events[max(0, at - 64) : at]):
            if other["tid"] == event["tid"] and other["ts"] + other["dur"] >= event["ts"] + event["dur"]:
                return other
        return None


def parts_of(events):
    spans = [e for e in events if e.get("ph") == "X" and "dur" in e]
    marks = Ranges([e for e in spans if e["name"].startswith(MARK)])
    updates = Ranges([e for e in spans if e["name"].startswith("Optimizer.step")])
    operators = [e for e in spans if e.get("cat") == "cpu_op"]
    nodes = Ranges([e for e in operators if e["name"].startswith("autograd::engine::evaluate_function")])
    forward = {}
    for event in operators:
        mark = marks.around(event)
        number = event.get("args", {}).get("Sequence number")
        if mark is not None and number is not None:
            forward.setdefault(number, mark["name"][len(MARK) :])
    begin = min(e["ts"] for e in spans if e["name"].startswith("ProfilerStep#"))
    found = []
    for event in operators:
        mark, node = marks.around(event), nodes.around(event)
        name = ""
        if mark is not None:
            name = mark["name"][len(MARK) :]
        elif node is not None:
            served = forward.get(node.get("args", {}).get("Sequence number"))
            name = served + ".grad" if served else ""
        elif updates.around(event) is not None:
            name = "update"
        start = int((event["ts"] - begin) * 1000)
        found.append([event["name"], start, start + int(event["dur"] * 1000), name])
    return found


def train(model, path):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3),
        on_trace_ready=lambda p: p.export_chrome_trace(path),
    ) as profiler:
        for _ in range(4):
            tokens = torch.randint(0, VOCAB, (BATCH, LENGTH + 1))
            optimizer.zero_grad()
            model(tokens[:, :-1], tokens[:, 1:]).backward()
            optimizer.step()
            profiler.step()


def train_rank(rank, path, llama, kind):
    torch.distributed.init_process_group("gloo", init_method="file://" + os.path.abspath(path) + ".meet", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model(llama)
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    else:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (RANKS,))
        for block in model.blocks:
            torch.distributed.fsdp.fully_shard(block, mesh=mesh)
        torch.distributed.fsdp.fully_shard(model, mesh=mesh)
    train(model, path + str(rank))
    torch.distributed.destroy_process_group()


def main():
    path, llama = sys.argv[1], sys.argv[2] == "llama"
    if len(sys.argv) > 3:
        torch.multiprocessing.spawn(train_rank, args=(path, llama, sys.argv[3]), nprocs=RANKS)
        path += "0"
    else:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        train(Model(llama), path)
    with open(path, encoding="utf-8") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    print(json.dumps({"ops": parts_of(events)}))


if __name__ == "__main__":
    main()
