"""Casts the fp32 numbers of a file to 8 bits: python3 casts.py NUMBERS FORMAT LARGEST OUT.

Writes a code for each number, rounded as torch.float8_e4m3fn or torch.float8_e5m2. Numbers beyond LARGEST, which
PyTorch and foretrain treat differently, become 0."""

import sys

import numpy
import torch


def main():
    numbers, name, largest, out = sys.argv[1:]
    x = torch.from_numpy(numpy.fromfile(numbers, dtype=numpy.float32))
    codes = x.to(getattr(torch, name)).view(torch.uint8)
    codes[~(x.abs() <= float(largest))] = 0
    codes.numpy().tofile(out)


if __name__ == "__main__":
    main()
