#!/usr/bin/env python3
"""Trains gpt-10m on the sources of Python's standard library with foretrain and with PyTorch, and compares.

    python3 tests/torch/stdlib.py build/release/foretrain FOLDER [--part prepare|foretrain|torch|compare]

All .py files of --sources, in the order of their paths, become FOLDER/train.txt and, their last tenth,
FOLDER/valid.txt; a token is a byte. foretrain makes the first weights and exports them to FOLDER/hub. Both programs
then train from these on the same batches with AdamW, a cosine and clipping, on one thread, and compute the loss of the
same --eval-batches of valid.txt after each quarter. Parts write their results to FOLDER, so that they can run apart; without
--part all run, one after the other. `compare` prints one JSON object: both losses of valid.txt by step, the relative
difference of the last ones, and the seconds that each training took. Needs torch (written with 2.15).
"""
import argparse
import json
import math
import os
import subprocess
import sys
import sysconfig
import time

BATCH, WARM_UP, PEAK, LEAST, CLIP = 8, 0.05, 1e-3, 1e-4, 1.0


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("foretrain", help="the program")
    p.add_argument("folder", help="for texts, weights and results")
    p.add_argument("--part", choices=["prepare", "foretrain", "torch", "compare"])
    p.add_argument("--sources", default=sysconfig.get_paths()["stdlib"], help="folder of Python sources")
    p.add_argument("--tokens", type=int, default=1_000_000, help="to train on")
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--sequence", type=int, default=256)
    p.add_argument("--eval-batches", type=int, default=16)
    return p.parse_args()


def steps(args):
    return -(-args.tokens // (BATCH * args.sequence))


def quarter(args):
    return -(-steps(args) // 4)


def warm_up(args):
    return round(WARM_UP * steps(args))


def run(args, command, output=None):
    """Runs foretrain in the folder on one thread."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    program = os.path.abspath(args.foretrain)
    with open(os.path.join(args.folder, output or os.devnull), "w") as file:
        subprocess.run([program, *command], cwd=args.folder, env={**os.environ, **threads}, stdout=file, check=True)


def sources(folder):
    """Paths of the library's own modules, without tests and installed packages."""
    left_out = {"test", "tests", "site-packages", "dist-packages", "__pycache__"}
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in left_out)
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(path, name)


def prepare(args):
    os.makedirs(args.folder, exist_ok=True)
    text = bytearray()
    for path in sources(args.sources):
        with open(path, "rb") as file:
            text += file.read()
    held_out = len(text) // 10
    for name, part in (("train.txt", text[:-held_out]), ("valid.txt", text[-held_out:])):
        with open(os.path.join(args.folder, name), "wb") as file:
            file.write(part)
    # A step with a learning rate of 0 leaves the first weights as they are.
    run(args, ["train", "--model", "gpt-10m", "--layers", str(args.layers), "--sequence", str(args.sequence),
               "--ranks", "1", "--global-batch", "1", "--capture", "off", "--data", "train.txt", "--steps", "1",
               "--lr", "0", "--save", "first"])
    run(args, ["convert", "first", "--family", "gpt2", "--out", "hub"])
    print(f"{len(text)} bytes of {args.sources}, {len(text) - held_out} to train on", file=sys.stderr)


def with_foretrain(args):
    begin = time.perf_counter()
    count = steps(args)
    run(args, ["train", "--init", "hub", "--ranks", "1", "--capture", "off", "--json", "--data", "train.txt",
               "--sequence", str(args.sequence), "--global-batch", str(BATCH), "--micro-batch", str(BATCH),
               "--steps", str(count), "--lr", str(PEAK), "--lr-schedule", "cosine", "--warmup", str(warm_up(args)),
               "--lr-min", str(LEAST), "--clip", str(CLIP), "--eval-data", "valid.txt", "--eval-every", str(quarter(args)),
               "--eval-batches", str(args.eval_batches)], "foretrain.jsonl")
    with open(os.path.join(args.folder, "foretrain.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    losses = [line["loss"] for line in lines if "learning_rate" in line]
    evaluated = [line for line in lines if "evaluation_s" in line]
    return {"losses": losses, "evaluations": {line["step"] + 1: line["evaluation_loss"] for line in evaluated},
            "seconds": time.perf_counter() - begin}


def rate(step, args):
    """Learning rate of a step: linear up to PEAK, then half a cosine that reaches LEAST in the last step."""
    up = warm_up(args)
    if step < up:
        return PEAK * (step + 1) / up
    return LEAST + (PEAK - LEAST) * (1 + math.cos(math.pi * (step - up) / (steps(args) - up))) / 2


def in_torch(args):
    import torch
    from torch.nn import functional

    import train

    torch.set_num_threads(1)
    begin = time.perf_counter()

    def tokens(name):
        with open(os.path.join(args.folder, name), "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()

    with open(os.path.join(args.folder, "hub", "config.json")) as file:
        model = train.Gpt2(json.load(file))
    saved = train.read_safetensors(os.path.join(args.folder, "hub", "model.safetensors"))
    saved = {name.removeprefix("transformer."): tensor for name, tensor in saved.items()}
    weights = {name: saved[name].clone().requires_grad_() for name, _ in model.shapes()}
    parameters = list(weights.values())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        lr=PEAK, betas=(0.9, 0.95), eps=1e-8)
    args.batch = BATCH
    text, valid = tokens("train.txt"), tokens("valid.txt")
    losses, evaluations = [], {}

    def loss_of(text, step):
        ids, targets = train.batch(text, step, args)
        return functional.cross_entropy(model.logits(weights, ids).flatten(0, 1), targets)

    for step in range(steps(args)):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, args)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(text, step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % quarter(args) == 0 or step + 1 == steps(args):
            with torch.no_grad():
                sums = sum(loss_of(valid, i).item() for i in range(args.eval_batches))
            evaluations[step + 1] = sums / args.eval_batches
        if step % 20 == 0 or step + 1 in evaluations:
            told = evaluations.get(step + 1, "")
            print(f"step {step + 1} of {steps(args)}: {losses[-1]:.4f} {told}", file=sys.stderr, flush=True)
    return {"losses": losses, "evaluations": evaluations, "seconds": time.perf_counter() - begin,
            "torch": torch.__version__}


def compare(args):
    def read(name):
        with open(os.path.join(args.folder, name)) as file:
            return json.load(file)

    ours, theirs = read("foretrain.json"), read("torch.json")
    last = str(steps(args))
    expected, found = theirs["evaluations"][last], ours["evaluations"][last]
    apart = [abs(a - b) / b for a, b in zip(ours["losses"], theirs["losses"])]
    print(json.dumps({
        "tokens": steps(args) * BATCH * args.sequence, "foretrain": ours["evaluations"],
        "torch": theirs["evaluations"], "difference": abs(found - expected) / expected, "largest_difference_of_a_step": max(apart),
        "foretrain_seconds": ours["seconds"], "torch_seconds": theirs["seconds"], "torch_version": theirs["torch"]}))


def main():
    args = arguments()
    parts = [args.part] if args.part else ["prepare", "foretrain", "torch", "compare"]
    for part in parts:
        if part in ("prepare", "compare"):
            {"prepare": prepare, "compare": compare}[part](args)
            continue
        result = (with_foretrain if part == "foretrain" else in_torch)(args)
        with open(os.path.join(args.folder, part + ".json"), "w") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
