#!/usr/bin/env python3
"""Checks that runs of the tests' CUDA runtime together launched every kernel and left nothing behind.

usage: check_launches.py REPORT...
"""
import sys

launched, known, wrong = set(), set(), []
for path in sys.argv[1:]:
    with open(path, encoding='utf-8') as report:
        for line in report:
            word, value = line.split()[:2]
            if word in ('launched', 'never'):
                known.add(value)
                if word == 'launched':
                    launched.add(value)
            elif value != '0':
                wrong.append(f'{path}: {word} {value}: something is left, or was used wrongly')
wrong += [f'no test launches {kernel}' for kernel in sorted(known - launched)]
print('\n'.join(wrong + [f'{len(launched)} of {len(known)} kernels launched']))
sys.exit(1 if wrong or not known else 0)
