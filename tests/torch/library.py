#!/usr/bin/env python3
"""Trains a small model of the transformers library as train.py beside it trains one of its own.

--config is a config.json of any model type that NAMES below knows; --save-init gets the weights that training starts
from, under foretrain's names. Prints what train.py prints. Needs torch and transformers (written with 5.23).
"""
import json
import re
import sys

import torch
from torch.nn import functional

import train


# Ours of theirs: a pattern of the library's name (layers as {}), and ours, which may be several parts of its rows.
COMMON = {
    r"model\.embed_tokens\.weight": "embedding.tokens.weight",
    r"model\.norm\.weight": "head.norm.weight",
    r"model\.norm\.bias": "head.norm.bias",
    r"lm_head\.weight": "head.weight",
    r"lm_head\.bias": "head.bias",
    r"model\.layers\.(\d+)\.input_layernorm\.(\w+)": "layers.{}.norm1.{}",
    r"model\.layers\.(\d+)\.post_attention_layernorm\.(\w+)": "layers.{}.norm2.{}",
    r"model\.layers\.(\d+)\.self_attn\.([qkv])_proj\.(\w+)": "layers.{}.attention.{}.{}",
    r"model\.layers\.(\d+)\.self_attn\.([qk])_norm\.(\w+)": "layers.{}.attention.{}_norm.{}",
    r"model\.layers\.(\d+)\.self_attn\.o_proj\.(\w+)": "layers.{}.attention.out.{}",
    r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\.(\w+)": "layers.{}.mlp.{}.{}",
    r"model\.layers\.(\d+)\.mlp\.gate_up_proj\.(\w+)": "layers.{}.mlp.[gate|up].{}",
    r"model\.layers\.(\d+)\.self_attn\.qkv_proj\.(\w+)": "layers.{}.attention.[q|k|v].{}",
}
GEMMA = {
    r"model\.layers\.(\d+)\.post_attention_layernorm\.(\w+)": "layers.{}.attention.post_norm.{}",
    r"model\.layers\.(\d+)\.pre_feedforward_layernorm\.(\w+)": "layers.{}.norm2.{}",
    r"model\.layers\.(\d+)\.post_feedforward_layernorm\.(\w+)": "layers.{}.mlp.post_norm.{}",
}
NAMES = {
    "llama": {}, "mistral": {}, "qwen2": {}, "qwen3": {}, "phi3": {}, "glm": {}, "stablelm": {}, "nemotron": {},
    "gemma": {}, "gemma2": GEMMA, "gemma3_text": GEMMA,
    "starcoder2": {
        r"model\.layers\.(\d+)\.mlp\.c_fc\.(\w+)": "layers.{}.mlp.up.{}",
        r"model\.layers\.(\d+)\.mlp\.c_proj\.(\w+)": "layers.{}.mlp.down.{}",
    },
    "glm4": {
        r"model\.layers\.(\d+)\.post_self_attn_layernorm\.(\w+)": "layers.{}.attention.post_norm.{}",
        r"model\.layers\.(\d+)\.post_mlp_layernorm\.(\w+)": "layers.{}.mlp.post_norm.{}",
    },
    "phi": {
        r"model\.layers\.(\d+)\.self_attn\.dense\.(\w+)": "layers.{}.attention.out.{}",
        r"model\.layers\.(\d+)\.mlp\.fc1\.(\w+)": "layers.{}.mlp.up.{}",
        r"model\.layers\.(\d+)\.mlp\.fc2\.(\w+)": "layers.{}.mlp.down.{}",
        r"model\.final_layernorm\.(\w+)": "head.norm.{}",
    },
    "gpt_neox": {
        r"gpt_neox\.embed_in\.weight": "embedding.tokens.weight",
        r"gpt_neox\.final_layer_norm\.(\w+)": "head.norm.{}",
        r"embed_out\.weight": "head.weight",
        r"gpt_neox\.layers\.(\d+)\.input_layernorm\.(\w+)": "layers.{}.norm1.{}",
        r"gpt_neox\.layers\.(\d+)\.post_attention_layernorm\.(\w+)": "layers.{}.norm2.{}",
        r"gpt_neox\.layers\.(\d+)\.attention\.query_key_value\.(\w+)": "layers.{}.attention.[q|k|v].{}",
        r"gpt_neox\.layers\.(\d+)\.attention\.dense\.(\w+)": "layers.{}.attention.out.{}",
        r"gpt_neox\.layers\.(\d+)\.mlp\.dense_h_to_4h\.(\w+)": "layers.{}.mlp.up.{}",
        r"gpt_neox\.layers\.(\d+)\.mlp\.dense_4h_to_h\.(\w+)": "layers.{}.mlp.down.{}",
    },
    "gptj": {
        r"transformer\.wte\.weight": "embedding.tokens.weight",
        r"transformer\.ln_f\.(\w+)": "head.norm.{}",
        r"transformer\.h\.(\d+)\.ln_1\.(\w+)": "layers.{}.norm1.{}",
        r"transformer\.h\.(\d+)\.attn\.([qkv])_proj\.(\w+)": "layers.{}.attention.{}.{}",
        r"transformer\.h\.(\d+)\.attn\.out_proj\.(\w+)": "layers.{}.attention.out.{}",
        r"transformer\.h\.(\d+)\.mlp\.fc_in\.(\w+)": "layers.{}.mlp.up.{}",
        r"transformer\.h\.(\d+)\.mlp\.fc_out\.(\w+)": "layers.{}.mlp.down.{}",
    },
    "opt": {
        r"model\.decoder\.embed_tokens\.weight": "embedding.tokens.weight",
        r"model\.decoder\.embed_positions\.weight": "embedding.positions.weight",
        r"model\.decoder\.final_layer_norm\.(\w+)": "head.norm.{}",
        r"model\.decoder\.layers\.(\d+)\.self_attn_layer_norm\.(\w+)": "layers.{}.norm1.{}",
        r"model\.decoder\.layers\.(\d+)\.final_layer_norm\.(\w+)": "layers.{}.norm2.{}",
        r"model\.decoder\.layers\.(\d+)\.self_attn\.([qkv])_proj\.(\w+)": "layers.{}.attention.{}.{}",
        r"model\.decoder\.layers\.(\d+)\.self_attn\.out_proj\.(\w+)": "layers.{}.attention.out.{}",
        r"model\.decoder\.layers\.(\d+)\.fc1\.(\w+)": "layers.{}.mlp.up.{}",
        r"model\.decoder\.layers\.(\d+)\.fc2\.(\w+)": "layers.{}.mlp.down.{}",
    },
}
ADDS_ONE = {"gemma", "gemma2", "gemma3_text", "nemotron"}  # to the weights of norms
BESIDE = {"glm", "glm4", "gptj"}  # rotary pairs lie beside each other


class Names:
    """From the library's parameters to tensors under our names."""

    def __init__(self, config):
        self.config = config
        self.type = config.model_type
        self.patterns = {**COMMON, **NAMES[self.type]}
        self.heads = getattr(config, "num_attention_heads", None) or config.n_head
        self.kv_heads = getattr(config, "num_key_value_heads", None) or self.heads
        hidden = getattr(config, "hidden_size", None) or config.n_embd
        self.head_dim = getattr(config, "head_dim", None) or hidden // self.heads
        rope = getattr(config, "rope_parameters", None) or {}
        self.turned = getattr(config, "rotary_dim", None) or int(
            self.head_dim * rope.get("partial_rotary_factor", 1.0))

    def apart(self, name, tensor):
        """Rows of q and k with the pairs of a head half of the turned elements apart."""
        if self.type not in BESIDE or not re.search(r"attention\.[qk]\.", name):
            return tensor
        rest = list(range(self.turned, self.head_dim))
        order = list(range(0, self.turned, 2)) + list(range(1, self.turned, 2)) + rest
        heads = tensor.unflatten(0, (-1, self.head_dim))
        return heads[:, order].flatten(0, 1)

    def parts(self, name, tensor):
        parts = re.search(r"\[(.*)\]", name)
        if not parts:
            return {name: tensor}
        names = [name[: parts.start()] + part + name[parts.end():] for part in parts[1].split("|")]
        if self.type == "gpt_neox":  # q, k and v of a head, head by head
            heads = tensor.unflatten(0, (self.heads, 3, self.head_dim))
            return {n: heads[:, i].flatten(0, 1) for i, n in enumerate(names)}
        if len(names) == 2:
            return dict(zip(names, tensor.chunk(2)))
        sizes = [count * self.head_dim for count in (self.heads, self.kv_heads, self.kv_heads)]
        return dict(zip(names, tensor.split(sizes)))

    def __call__(self, theirs, tensor):
        for pattern, ours in reversed(self.patterns.items()):
            found = re.fullmatch(pattern, theirs)
            if not found:
                continue
            name = ours.format(*found.groups())
            if self.type in ADDS_ONE and "norm" in name and name.endswith("weight"):
                tensor = tensor + 1
            return {n: self.apart(n, t) for n, t in self.parts(name, tensor).items()}
        raise SystemExit(f"no name of ours for {theirs}")


def make(config_path, seed):
    from transformers import AutoConfig, AutoModelForCausalLM

    with open(config_path) as file:
        fields = json.load(file)
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model.eval()  # no dropout
    with torch.no_grad():  # a term that is left out must show
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1 if parameter.dim() == 1 else 0.01)
    return model


def main():
    args = train.arguments()
    torch.set_num_threads(args.threads)
    model = make(args.config, args.seed)
    names = Names(model.config)
    if args.save_init:
        ours = {}
        for name, parameter in model.named_parameters():
            ours.update(names(name, parameter.detach()))
        train.write_safetensors(args.save_init, {name: t.clone() for name, t in ours.items()})
    if args.double:
        model.double()
    with open(args.data, "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.95), eps=1e-8)
    span = args.batch * args.sequence
    losses, norms = [], []
    for step in range(args.steps):
        start = step * span % (len(tokens) - span)
        ids = tokens[start : start + span].view(args.batch, args.sequence)
        targets = tokens[start + 1 : start + 1 + span]
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), targets)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, args.clip or 1e9).item())
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps({"torch": torch.__version__, "losses": losses, "gradient_norms": norms, "seconds": []}))


if __name__ == "__main__":
    sys.exit(main())
