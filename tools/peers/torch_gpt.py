#!/usr/bin/env python3
"""Times training steps of a GPT-2 or Llama model in PyTorch, for comparison with `foretrain bench`.

Shapes come from a row of `foretrain bench --list --json` (its `peer`). The model is written as PyTorch users write it:
fused scaled_dot_product_attention, autocast for bf16, fused AdamW, activation checkpointing if the row recomputes. The
last line of output is one JSON object. Works with PyTorch 2.0 and later; --compile needs a working compiler.
"""
import argparse
import json
import statistics
import sys
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--row", metavar="JSON", help="a row's `peer`; other options override it")
    parser.add_argument("--family", choices=["gpt2", "llama"])
    for name in ("layers", "hidden", "heads", "kv-heads", "ffn-hidden", "vocab", "sequence", "micro-batch", "global-batch", "lora-rank"):
        parser.add_argument("--" + name, type=int, metavar="N")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"])
    parser.add_argument("--moments", choices=["fp32", "bf16"])
    parser.add_argument("--recompute", action="store_true", default=None)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--steps", type=int, default=10, help="timed steps (default: 10)")
    parser.add_argument("--warm-up", type=int, default=3, help="untimed steps before them (default: 3)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    row = {"family": "gpt2", "layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "sequence": 1024, "micro_batch": 4,
           "precision": "bf16", "recompute": False, "lora_rank": 0, "tied": True, "moments": "fp32"}
    if arguments.row:
        try:
            row.update(json.loads(arguments.row))
        except ValueError as error:
            parser.error(f"--row is no JSON object: {error}")
    for name, value in vars(arguments).items():
        if value is not None and name not in ("row", "compile", "device", "steps", "warm_up", "seed"):
            row[name] = value
    row.setdefault("kv_heads", row["heads"])
    row.setdefault("ffn_hidden", 4 * row["hidden"])
    row.setdefault("global_batch", row["micro_batch"])
    if arguments.steps < 1 or arguments.warm_up < 0:
        parser.error("--steps must be at least 1 and --warm-up at least 0")
    if row["global_batch"] % row["micro_batch"]:
        parser.error(f"the global batch {row['global_batch']} is no multiple of the micro-batch {row['micro_batch']}")
    return arguments, row


def make_model(torch, row):
    """Returns the model class of a row, and the function that initializes weights to normal(0, 0.02)."""
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    gpt2 = row["family"] == "gpt2"
    hidden, heads, kv_heads = row["hidden"], row["heads"], row["kv_heads"]
    size = hidden // heads

    class Adapted(nn.Module):
        """A linear layer, with a trained adapter of rank r if the row asks for one."""

        def __init__(self, inputs, outputs, bias):
            super().__init__()
            self.linear = nn.Linear(inputs, outputs, bias=bias)
            rank = row["lora_rank"]
            self.down = nn.Linear(inputs, rank, bias=False) if rank else None
            self.up = nn.Linear(rank, outputs, bias=False) if rank else None

        def forward(self, x):
            y = self.linear(x)
            return y if self.down is None else y + self.up(self.down(x)) * (16.0 / row["lora_rank"])

    class RmsNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(hidden))

        def forward(self, x):
            scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
            return (x.float() * scale).to(x.dtype) * self.weight.to(x.dtype)

    def norm():
        return nn.LayerNorm(hidden) if gpt2 else RmsNorm()

    def rotate(x, angles):
        first, second = x.chunk(2, dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = norm(), norm()
            self.qkv = Adapted(hidden, (heads + 2 * kv_heads) * size, gpt2)
            self.out = Adapted(heads * size, hidden, gpt2)
            width = row["ffn_hidden"]
            self.up = Adapted(hidden, width if gpt2 else 2 * width, gpt2)
            self.down = Adapted(width, hidden, gpt2)

        def attend(self, x, angles):
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).split((heads * size, kv_heads * size, kv_heads * size), dim=-1)
            q = q.view(batch, length, heads, size).transpose(1, 2)
            k = k.view(batch, length, kv_heads, size).transpose(1, 2)
            v = v.view(batch, length, kv_heads, size).transpose(1, 2)
            if angles is not None:
                q, k = rotate(q, angles), rotate(k, angles)
            if kv_heads != heads:
                k = k.repeat_interleave(heads // kv_heads, dim=1)
                v = v.repeat_interleave(heads // kv_heads, dim=1)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(batch, length, heads * size))

        def feed(self, x):
            y = self.up(x)
            if gpt2:
                return self.down(functional.gelu(y, approximate="tanh"))
            gate, value = y.chunk(2, dim=-1)
            return self.down(functional.silu(gate) * value)

        def forward(self, x, angles):
            x = x + self.attend(self.norm1(x), angles)
            return x + self.feed(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(row["vocab"], hidden)
            self.positions = nn.Embedding(row["sequence"], hidden) if gpt2 else None
            self.layers = nn.ModuleList(Layer() for _ in range(row["layers"]))
            self.norm = norm()
            self.head = nn.Linear(hidden, row["vocab"], bias=False)
            if row["tied"]:
                self.head.weight = self.tokens.weight

        def forward(self, ids, targets):
            length = ids.shape[1]
            place = torch.arange(length, device=ids.device)
            x = self.tokens(ids)
            angles = None
            if self.positions is not None:
                x = x + self.positions(place)
            else:
                rates = 10000.0 ** (-torch.arange(0, size, 2, device=ids.device).float() / size)
                angles = place[:, None].float() * rates[None, :]
            if torch.is_autocast_enabled():
                x = x.to(torch.bfloat16)
            for layer in self.layers:
                if row["recompute"]:
                    x = checkpoint(layer, x, angles, use_reentrant=False)
                else:
                    x = layer(x, angles)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.view(-1, row["vocab"]).float(), targets.reshape(-1))

    def start(module):
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name == "bias":
                nn.init.zeros_(parameter)

    return Model, start


def main():
    arguments, row = parse_arguments()
    try:
        import torch
    except ImportError:
        print("tools/peers/torch_gpt.py: PyTorch is not installed for this python", file=sys.stderr)
        return 2
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("tools/peers/torch_gpt.py: PyTorch sees no GPU; give --device cpu", file=sys.stderr)
        return 2
    device = torch.device(arguments.device)
    cuda = device.type == "cuda"
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high" if row["precision"] == "tf32" else "highest")

    make, start = make_model(torch, row)
    # With bf16 and bf16 moments all state is bf16, as in a plan without fp32 moments; otherwise fp32 state under autocast.
    state = torch.bfloat16 if row["precision"] == "bf16" and (row["moments"] == "bf16" or row["lora_rank"]) else torch.float32
    torch.set_default_dtype(state)
    with device:
        model = make()
    torch.set_default_dtype(torch.float32)
    model.apply(start)
    if row["lora_rank"]:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.endswith((".down.weight", ".up.weight")))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-4, **({"fused": True} if cuda else {}))
    step_model = torch.compile(model) if arguments.compile else model
    cast = row["precision"] == "bf16"

    generator = torch.Generator(device="cpu").manual_seed(arguments.seed)
    ids = torch.randint(row["vocab"], (row["global_batch"], row["sequence"] + 1), generator=generator).to(device)
    pieces = row["global_batch"] // row["micro_batch"]

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for piece in ids.split(row["micro_batch"]):
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cast):
                loss = step_model(piece[:, :-1], piece[:, 1:]) / pieces
            loss.backward()
            total = total + loss.detach()
        optimizer.step()
        return total

    def wait():
        if cuda:
            torch.cuda.synchronize()

    for _ in range(arguments.warm_up):
        loss = step()
    wait()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(arguments.steps):
        begin = time.perf_counter()
        loss = step()
        wait()
        times.append(time.perf_counter() - begin)
    seconds = statistics.median(times)
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if cuda else "cpu", "compiled": arguments.compile,
              "precision": row["precision"], "parameters": sum(p.numel() for p in model.parameters()),
              "trained": sum(p.numel() for p in trained), "step_time_s": seconds, "steps_s": times,
              "tokens_per_s": row["global_batch"] * row["sequence"] / seconds, "loss": float(loss),
              "peak_memory_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None}
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
