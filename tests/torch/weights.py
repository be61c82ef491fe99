#!/usr/bin/env python3
"""Saves, loads and compares model folders with the transformers and PEFT libraries. Prints one JSON object.

save CONFIG OUT DATA         makes a random model of a config.json, saves it to OUT in several files
adapt FOLDER OUT DATA NAMES  adds random LoRA adapters to the modules NAMES (a,b,c) of FOLDER, saves them to OUT
adapted FOLDER ADAPTERS DATA [MERGED]  loads FOLDER with ADAPTERS; also prints `logits`, the largest difference from
                             those of the folder MERGED
compare A DATA B C           loads the folders
generate FOLDER IDS N        adds N tokens to the tokens IDS (1,2,3), each the most probable one

The first three print `loss` over the first 4 sequences of 32 bytes of DATA. `generate` prints the new `tokens`, and
`margin`, the smallest difference between the two largest logits of a token. `compare` prints for each folder after A,
by its name, `missing` and `unexpected` (keys), `largest` (the largest difference of each tensor that differs from A's),
`logits` (the largest difference) and `loss`. Needs torch, transformers and peft (written with 2.15, 5.24 and 0.21).
"""
import json
import sys

import torch
from torch.nn import functional

import library

BATCH, SEQUENCE = 4, 32


def tokens(path):
    with open(path, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    span = BATCH * SEQUENCE
    return data[:span].view(BATCH, SEQUENCE), data[1 : span + 1]


def load(folder):
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    return model.eval(), info


def result(model, data):
    ids, targets = tokens(data)
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    return logits, functional.cross_entropy(logits.flatten(0, 1), targets).item()


def save(config, out, data):
    model = library.make(config, seed=1)
    model.save_pretrained(out, max_shard_size="60KB")
    return {"loss": result(model, data)[1]}


def adapt(folder, out, data, names):
    from peft import LoraConfig, get_peft_model

    model, _ = load(folder)
    torch.manual_seed(2)
    config = LoraConfig(r=4, lora_alpha=12, target_modules=names.split(","), init_lora_weights=False,
                        task_type="CAUSAL_LM", fan_in_fan_out=model.config.model_type == "gpt2")
    adapted = get_peft_model(model, config).eval()
    adapted.save_pretrained(out)
    return {"loss": result(adapted, data)[1]}


def adapted(folder, adapters, data, merged=None):
    import warnings

    from peft import PeftModel

    model, _ = load(folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PeftModel.from_pretrained(model, adapters).eval()
    missing = [str(w.message) for w in caught if "missing" in str(w.message)]
    logits, loss = result(model, data)
    told = {"loss": loss, "missing": missing, "plain": result(model.unload(), data)[1]}
    if merged is not None:
        told["logits"] = (logits - result(load(merged)[0], data)[0]).abs().max().item()
        told["largest_logit"] = logits.abs().max().item()
    return told


def compare(a, data, *others):
    one, _ = load(a)
    expected, (logits, _) = one.state_dict(), result(one, data)
    compared = {}
    for folder in others:
        other, info = load(folder)
        found, largest = other.state_dict(), {}
        for name, tensor in expected.items():
            difference = (tensor - found[name]).abs().max().item() if name in found else float("inf")
            if difference != 0:
                largest[name] = difference
        y, loss = result(other, data)
        compared[folder] = {"missing": sorted(info["missing_keys"]), "unexpected": sorted(info["unexpected_keys"]),
                            "largest": largest, "logits": (logits - y).abs().max().item(), "loss": loss}
    return compared


def generate(folder, ids, count):
    model, _ = load(folder)
    prompt = torch.tensor([[int(i) for i in ids.split(",")]])
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=int(count), do_sample=False,
                         eos_token_id=None, pad_token_id=0, output_logits=True, return_dict_in_generate=True)
    top = torch.stack([logits[0] for logits in out.logits]).topk(2).values
    return {"tokens": out.sequences[0, prompt.shape[1]:].tolist(), "margin": (top[:, 0] - top[:, 1]).min().item()}


def main():
    torch.set_num_threads(1)
    commands = {"save": save, "adapt": adapt, "adapted": adapted, "compare": compare, "generate": generate}
    command = commands[sys.argv[1]]
    print(json.dumps(command(*sys.argv[2:])))


if __name__ == "__main__":
    main()
