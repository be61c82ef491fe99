"""Trains a small GPT on the CPU under torch.profiler, writes the trace, and prints an independent reading of it.

traced.py TRACE prints one JSON object: number of operators, self time by name in nanoseconds, steps.
"""
import collections
import json
import sys
from decimal import Decimal

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

HIDDEN, HEADS, LAYERS, VOCAB, LENGTH, BATCH = 128, 4, 4, 256, 64, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            y.view(batch, length, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for y in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(batch, length, HIDDEN))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, x):
        y = self.tokens(x)
        for i, block in enumerate(self.blocks):
            with record_function(f"layer {i}"):
                y = block(y)
        return self.head(y)


def self_times(events):
    """Each operator's time without the operators directly within it. Keeps one stack a thread."""
    spans = [e for e in events if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
    spans.sort(key=lambda e: (e["tid"], e["ts"], -e["dur"]))
    times, stack = collections.Counter(), []
    for span in spans:
        while stack and (stack[-1]["tid"] != span["tid"] or stack[-1]["ts"] + stack[-1]["dur"] <= span["ts"]):
            stack.pop()
        length = int(span["dur"] * 1000)
        if stack and stack[-1]["cat"] == "cpu_op":
            times[stack[-1]["name"]] -= length
        if span["cat"] == "cpu_op":
            times[span["name"]] += length
        stack.append(span)
    return dict(times)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3),
        profile_memory=True,
        on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1]),
    ) as profiler:
        for _ in range(4):
            tokens = torch.randint(0, VOCAB, (BATCH, LENGTH + 1))
            optimizer.zero_grad()
            logits = model(tokens[:, :-1]).flatten(0, 1)
            nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
            optimizer.step()
            profiler.step()
    with open(sys.argv[1], encoding="utf-8") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    operators = [e for e in events if e.get("ph") == "X" and e.get("cat") == "cpu_op"]
    steps = sorted(int(e["name"].split("#")[1]) for e in events if e.get("name", "").startswith("ProfilerStep#"))
    print(json.dumps({"operators": len(operators), "self_ns": self_times(events), "steps": steps}))


main()
