#!/usr/bin/env python3
"""Trains a small GPT-2 or Llama in plain PyTorch, with the same steps as `foretrain train`.

--config is a Hugging Face config.json of type gpt2 or llama. Initial weights are written to or read from a
safetensors file under Hugging Face names. Batch i is --batch consecutive samples of --sequence tokens of --data (one
token a byte), starting at (i * batch * sequence) % (length - batch * sequence). AdamW: betas .9
and .95, eps 1e-8, weight decay .1 on matrices and tables, none on vectors. Prints one JSON object: `torch`,
`losses`, `gradient_norms` (before clipping), `seconds` (of each step).

Needs torch 1.13 or later on a CPU: `apt-get install python3-torch libopenblas0-pthread`, or `pip install torch`.
"""
import argparse
import json
import math
import struct
import time

import torch
from torch.nn import functional


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--config", required=True)
    p.add_argument("--data", required=True)
    p.add_argument("--init", help="start from these weights; else from random ones")
    p.add_argument("--save-init", help="write the weights that training starts from")
    p.add_argument("--save-gradients", help="write the last step's gradients, not clipped")
    p.add_argument("--save-weights", help="write the weights after the last step")
    p.add_argument("--sequence", type=int, default=32)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--clip", type=float, default=0.0, help="largest global norm of the gradient; 0: not clipped")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--muon", action="store_true", help="update matrices of layers by torch.optim.Muon (library.py)")
    p.add_argument("--adafactor", choices=["torch", "transformers"], help="update by this library's Adafactor (library.py)")
    p.add_argument("--ema", type=float, default=0.0, help="decay of a moving average of the weights (library.py)")
    p.add_argument("--double", action="store_true", help="compute in fp64")
    p.add_argument("--fused", action="store_true", help="AdamW as one kernel, where torch has it for CPUs (2.4 and later)")
    return p.parse_args()


def attention(q, k, v, window=None):
    """Causal attention of [batch, heads, tokens, head_dim]. Several query heads may share a key head.

    With a window a token attends to that many tokens, itself included.
    """
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1)
    if window is None and hasattr(functional, "scaled_dot_product_attention"):  # torch 2.0 and later
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    tokens = q.shape[2]
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    if window is not None:
        hidden |= torch.ones(tokens, tokens, dtype=torch.bool).tril(-window)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


def split_heads(x, head_dim):
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def join_heads(x):
    return x.transpose(1, 2).flatten(2)


class Gpt2:
    """Pre-norm, learned positions, GELU by tanh, biases. Linear weights are [in, out]."""

    def __init__(self, config):
        self.layers = config["n_layer"]
        self.hidden = config["n_embd"]
        self.heads = config["n_head"]
        self.vocab = config["vocab_size"]
        self.positions = config["n_positions"]
        self.inner = config.get("n_inner") or 4 * self.hidden
        self.epsilon = config.get("layer_norm_epsilon", 1e-5)
        self.tied = config.get("tie_word_embeddings", True)

    def shapes(self):
        h = self.hidden
        yield "wte.weight", (self.vocab, h)
        yield "wpe.weight", (self.positions, h)
        for i in range(self.layers):
            for name, shape in (("ln_1", (h,)), ("attn.c_attn", (h, 3 * h)), ("attn.c_proj", (h, h)),
                                ("ln_2", (h,)), ("mlp.c_fc", (h, self.inner)), ("mlp.c_proj", (self.inner, h))):
                yield f"h.{i}.{name}.weight", shape
                yield f"h.{i}.{name}.bias", shape[-1:]
        yield "ln_f.weight", (h,)
        yield "ln_f.bias", (h,)
        if not self.tied:
            yield "lm_head.weight", (self.vocab, h)

    def norm(self, w, name, x):
        return functional.layer_norm(x, (self.hidden,), w[name + ".weight"], w[name + ".bias"], self.epsilon)

    def logits(self, w, ids):
        def linear(name, x):
            return functional.linear(x, w[name + ".weight"].t(), w[name + ".bias"])

        x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
        for i in range(self.layers):
            at = f"h.{i}."
            parts = linear(at + "attn.c_attn", self.norm(w, at + "ln_1", x)).chunk(3, dim=-1)
            q, k, v = (split_heads(part, self.hidden // self.heads) for part in parts)
            x = x + linear(at + "attn.c_proj", join_heads(attention(q, k, v)))
            up = linear(at + "mlp.c_fc", self.norm(w, at + "ln_2", x))
            x = x + linear(at + "mlp.c_proj", functional.gelu(up, approximate="tanh"))
        return self.norm(w, "ln_f", x) @ w["wte.weight" if self.tied else "lm_head.weight"].t()


class Llama:
    """Pre-norm by root mean square, rotary positions, SwiGLU, no biases. Linear weights are [out, in]."""

    def __init__(self, config):
        self.layers = config["num_hidden_layers"]
        self.hidden = config["hidden_size"]
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads", self.heads)
        self.head_dim = config.get("head_dim") or self.hidden // self.heads
        self.inner = config["intermediate_size"]
        self.vocab = config["vocab_size"]
        self.epsilon = config.get("rms_norm_eps", 1e-6)
        self.theta = config.get("rope_theta", 10000.0)
        self.tied = config.get("tie_word_embeddings", False)
        kinds = config.get("layer_types", ["sliding_attention"] * self.layers)
        window = config.get("sliding_window")
        self.windows = [window if kind == "sliding_attention" else None for kind in kinds]

    def shapes(self):
        h, q, kv = self.hidden, self.heads * self.head_dim, self.kv_heads * self.head_dim
        yield "model.embed_tokens.weight", (self.vocab, h)
        for i in range(self.layers):
            for name, shape in (("input_layernorm", (h,)), ("self_attn.q_proj", (q, h)), ("self_attn.k_proj", (kv, h)),
                                ("self_attn.v_proj", (kv, h)), ("self_attn.o_proj", (h, q)),
                                ("post_attention_layernorm", (h,)), ("mlp.gate_proj", (self.inner, h)),
                                ("mlp.up_proj", (self.inner, h)), ("mlp.down_proj", (h, self.inner))):
                yield f"model.layers.{i}.{name}.weight", shape
        yield "model.norm.weight", (h,)
        if not self.tied:
            yield "lm_head.weight", (self.vocab, h)

    def rotate(self, x):
        """Rotates components d and d + head_dim / 2 of a head by the angle position * theta^(-2 d / head_dim)."""
        half = self.head_dim // 2
        rate = self.theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * rate
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def norm(self, weight, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.epsilon) * weight

    def logits(self, w, ids):
        x = w["model.embed_tokens.weight"][ids]
        for i in range(self.layers):
            at = {name.split(".", 3)[3]: value for name, value in w.items() if name.startswith(f"model.layers.{i}.")}
            y = self.norm(at["input_layernorm.weight"], x)
            q, k, v = (split_heads(y @ at[f"self_attn.{part}_proj.weight"].t(), self.head_dim) for part in "qkv")
            y = join_heads(attention(self.rotate(q), self.rotate(k), v, self.windows[i]))
            x = x + y @ at["self_attn.o_proj.weight"].t()
            y = self.norm(at["post_attention_layernorm.weight"], x)
            gate, up = y @ at["mlp.gate_proj.weight"].t(), y @ at["mlp.up_proj.weight"].t()
            x = x + (functional.silu(gate) * up) @ at["mlp.down_proj.weight"].t()
        table = w["model.embed_tokens.weight" if self.tied else "lm_head.weight"]
        return self.norm(w["model.norm.weight"], x) @ table.t()


def random_weights(model, seed):
    """Vectors are random too, around 1 for norms and 0 for biases, so that a missing term shows."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in model.shapes():
        noise = torch.randn(shape, generator=generator)
        vector = len(shape) == 1
        weights[name] = 1 + 0.1 * noise if vector and name.endswith(".weight") else 0.02 * noise
    return weights


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, tensor in tensors.items():
        blob = tensor.detach().float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    length = struct.unpack("<Q", raw[:8])[0]
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = torch.frombuffer(raw[begin:end], dtype=torch.float32).view(entry["shape"])
    return tensors


def batch(tokens, step, args):
    """Ids [batch, sequence] and targets [batch * sequence] of a step: its samples in order, again from the first."""
    samples = (len(tokens) - 1) // args.sequence
    starts = [(step * args.batch + i) % samples * args.sequence for i in range(args.batch)]
    ids = torch.stack([tokens[start : start + args.sequence] for start in starts])
    targets = torch.cat([tokens[start + 1 : start + 1 + args.sequence] for start in starts])
    return ids, targets


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    with open(args.config) as file:
        config = json.load(file)
    model = {"gpt2": Gpt2, "llama": Llama, "mistral": Llama}[config["model_type"]](config)
    weights = read_safetensors(args.init) if args.init else random_weights(model, args.seed)
    if args.save_init:
        write_safetensors(args.save_init, weights)
    dtype = torch.float64 if args.double else torch.float32
    weights = {name: weights[name].to(dtype).requires_grad_() for name, _ in model.shapes()}
    with open(args.data, "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()

    parameters = list(weights.values())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if args.fused else {}))
    losses, norms, seconds = [], [], []
    for step in range(args.steps):
        begin = time.perf_counter()
        ids, targets = batch(tokens, step, args)
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model.logits(weights, ids).flatten(0, 1), targets)
        loss.backward()
        if args.save_gradients and step + 1 == args.steps:
            write_safetensors(args.save_gradients, {name: value.grad for name, value in weights.items()})
        if args.clip > 0:
            norms.append(torch.nn.utils.clip_grad_norm_(parameters, args.clip).item())
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    if args.save_weights:
        write_safetensors(args.save_weights, weights)
    print(json.dumps({"torch": torch.__version__, "losses": losses, "gradient_norms": norms, "seconds": seconds}))


if __name__ == "__main__":
    main()
