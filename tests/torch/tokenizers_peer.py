"""Compares `foretrain tokenize` with the library `tokenizers` (PyPI), token by token.

usage: tokenizers_peer.py FORETRAIN TEXT...

Trains a tokenizer of each kind that models use on the first part of the texts, encodes all of them with both programs,
and prints one line a kind. Exit status 1 if any token differs. Needs: pip install tokenizers.
"""

import array
import os
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CASES = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def of_bytes(words, normalizer=None, whole_first=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=whole_first))
    steps = [pre_tokenizers.Split(Regex(words), "isolated")] if words else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not words)])
    if normalizer:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return tokenizer, trainers.BpeTrainer(vocab_size=6000, initial_alphabet=alphabet, show_progress=False)


def of_characters(normalizer, splitter):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if splitter:
        tokenizer.pre_tokenizer = splitter
    special = ["<unk>"] + ["<0x%02X>" % byte for byte in range(256)]
    return tokenizer, trainers.BpeTrainer(vocab_size=5000, special_tokens=special, show_progress=False, max_token_length=16)


KINDS = {
    "GPT-2": of_bytes(None),
    "Llama 3": of_bytes(WORDS % "{1,3}", whole_first=True),
    "Qwen 2": of_bytes(WORDS % "", normalizer=normalizers.NFC()),
    "gpt-oss": of_bytes(CASES),
    "Llama 2": of_characters(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None),
    "Gemma": of_characters(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous")),
    "Mistral": of_characters(None, pre_tokenizers.Metaspace("▁", "first", False)),
}


def tokens_of(path):
    with open(path, "rb") as file:
        data = file.read()
    kind = array.array("i", data[:8])
    return list(array.array("H" if kind[1] == 1 else "I", data[1024:]))


def main():
    program, files = os.path.abspath(sys.argv[1]), sys.argv[2:]
    texts = [open(file, encoding="utf-8", newline="").read() for file in files]
    sample = [line for text in texts for line in text[:300_000].split("\n")]
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (tokenizer, trainer) in KINDS.items():
            tokenizer.train_from_iterator(sample, trainer)
            path = os.path.join(folder, "tokenizer.json")
            tokenizer.save(path)
            tokenizer = Tokenizer.from_file(path)
            out = os.path.join(folder, "tokens.bin")
            subprocess.run([program, "tokenize", "--tokenizer", path, "--end", "none", "--out", out, *files],
                           check=True, stdout=subprocess.DEVNULL)
            ours = tokens_of(out)
            theirs = [id for text in texts for id in tokenizer.encode(text, add_special_tokens=False).ids]
            differ += ours != theirs
            print(f"{name}: {len(theirs)} tokens, {'equal' if ours == theirs else 'DIFFERENT'}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
