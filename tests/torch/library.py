#!/usr/bin/env python3
"""Trains a small model of the transformers library. Options and output are those of train.py.

--config is a config.json of any causal language model, of T5 or mT5, or of BERT or RoBERTa, whose loss is then that of the next token too. --save-init writes the initial weights under the library's
names, --save-weights those after the last step, or their moving averages with --ema. Needs torch and transformers (written with 5.23).
"""
import json
import os
import shutil
import tempfile

import torch
from torch.nn import functional

import train


def make(config_path, seed):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM

    with open(config_path) as file:
        fields = json.load(file)
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    torch.manual_seed(seed)
    kind = AutoModelForMaskedLM if config.model_type in ("bert", "roberta") else AutoModelForCausalLM
    if config.is_encoder_decoder:
        kind = AutoModelForSeq2SeqLM
    model = kind.from_config(config, attn_implementation="eager")
    if config.is_encoder_decoder and not fields.get("tie_word_embeddings", True):
        # Published weights of T5 1.1 and mT5 have a head of their own, but version 5 ties it.
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    model.eval()  # no dropout
    with torch.no_grad():  # vectors too, so that a missing term shows
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1 if parameter.dim() == 1 else 0.01)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.add_(torch.randn_like(buffer), alpha=0.1)
    return model


def loss_of(model, ids, targets):
    """The loss of the next token. An encoder reads the first half of a sample; the decoder predicts the second."""
    if not model.config.is_encoder_decoder:
        return functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), targets)
    half = ids.size(1) // 2
    return model(input_ids=ids[:, :half], labels=ids[:, half:].contiguous()).loss


def decays(name, parameter):
    """Whether a parameter decays. Biases of experts form one tensor of two dimensions, so the name decides too."""
    return parameter.dim() > 1 and not name.endswith("bias")


def orthogonal(matrix, coefficients, steps, eps):
    """torch.optim.Muon's iterations, which it computes in bf16, in the format of the matrix."""
    a, b, c = coefficients
    x = matrix.T if matrix.size(0) > matrix.size(1) else matrix
    x = x / (x.norm() + eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.size(0) > matrix.size(1) else x


def adafactor(named, args):
    """The library's Adafactor. That of transformers chooses its own learning rate, at most 1e-2, and does not decay."""
    if args.adafactor == "transformers":
        from transformers.optimization import Adafactor

        return Adafactor([p for _, p in named], scale_parameter=True, relative_step=True, warmup_init=False)
    return torch.optim.Adafactor(
        [{"params": [p for name, p in named if decays(name, p)], "weight_decay": 0.1},
         {"params": [p for name, p in named if not decays(name, p)], "weight_decay": 0.0}], lr=args.lr)


def optimizers(named, args):
    """AdamW, and Muon for the layers' matrices if it is asked for; or Adafactor."""
    if args.adafactor:
        return [adafactor(named, args)]
    muon = [p for name, p in named if args.muon and ".layers." in name and p.dim() == 2]
    rest = [(name, p) for name, p in named if all(p is not m for m in muon)]
    made = [torch.optim.AdamW(
        [{"params": [p for name, p in rest if decays(name, p)], "weight_decay": 0.1},
         {"params": [p for name, p in rest if not decays(name, p)], "weight_decay": 0.0}],
        lr=args.lr, betas=(0.9, 0.95), eps=1e-8)]
    if muon:
        import torch.optim._muon as implementation

        implementation._zeropower_via_newtonschulz = orthogonal
        made.append(torch.optim.Muon(muon, lr=args.lr, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"))
    return made


def save(model, path):
    """Saves under the names of published files. The library keeps all experts of a layer in one tensor."""
    if all(parameter.dim() < 3 for parameter in model.parameters()):
        train.write_safetensors(path, dict(model.named_parameters()))
        return
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        shutil.move(os.path.join(folder, "model.safetensors"), path)


def main():
    args = train.arguments()
    torch.set_num_threads(args.threads)
    model = make(args.config, args.seed)
    if args.save_init:
        save(model, args.save_init)
    if args.double:
        model.double()
    with open(args.data, "rb") as file:
        tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    named = list(model.named_parameters())
    parameters = [p for _, p in named]
    updates = optimizers(named, args)
    average = None
    if args.ema:
        from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(args.ema))
        average.update_parameters(model)  # starts from the first weights
    losses, norms = [], []
    for step in range(args.steps):
        ids, targets = train.batch(tokens, step, args)
        model.zero_grad(set_to_none=True)
        loss = loss_of(model, ids, targets)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, args.clip or 1e9).item())
        for update in updates:
            update.step()
        if average is not None:
            average.update_parameters(model)
        losses.append(loss.item())
    if args.save_weights:
        save(model if average is None else average.module, args.save_weights)
    print(json.dumps({"torch": torch.__version__, "losses": losses, "gradient_norms": norms, "seconds": []}))


if __name__ == "__main__":
    main()
