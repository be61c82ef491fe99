"""Prints the learning rates of PyTorch's schedulers that learning_rate_test.cc expects.

Peak 1, minimum 0.2, 10 steps, 2 of them warm-up. wsd falls over the last 4 steps.
"""

import torch
from torch.optim import lr_scheduler as schedulers

PEAK, MINIMUM, STEPS, WARMUP, WSD_DECAY = 1.0, 0.2, 10, 2, 4


def rates(schedule):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    warmup = schedulers.LinearLR(optimizer, start_factor=1 / WARMUP, total_iters=WARMUP - 1)
    constant = schedulers.ConstantLR(optimizer, factor=1.0)
    after = STEPS - WARMUP
    linear = lambda n: schedulers.LinearLR(optimizer, 1.0, MINIMUM / PEAK, total_iters=n)
    parts = {
        "constant": ([warmup, constant], [WARMUP]),
        "linear": ([warmup, linear(after)], [WARMUP]),
        "cosine": (
            [warmup, schedulers.CosineAnnealingLR(optimizer, after, eta_min=MINIMUM)],
            [WARMUP],
        ),
        "wsd": ([warmup, constant, linear(WSD_DECAY)], [WARMUP, STEPS - WSD_DECAY]),
    }
    chosen, milestones = parts[schedule]
    scheduler = schedulers.SequentialLR(optimizer, chosen, milestones)
    result = []
    for _ in range(STEPS):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return result


for name in ["constant", "linear", "cosine", "wsd"]:
    print(name, ", ".join(f"{rate:.6f}" for rate in rates(name)))
