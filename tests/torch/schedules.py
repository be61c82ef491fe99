#!/usr/bin/env python3
"""Loads pipeline schedules with PyTorch's runtime for them. Prints one JSON object.

    schedules.py FILE OUT   loads FILE, which has passes alone: PyTorch checks it, adds its communication and runs it
                            in its simulator, which finds deadlocks. Writes it to OUT with communication

Prints `steps` of PyTorch's simulator and the number of `ranks`. Needs torch (written with 2.15).
"""
import csv
import json
import sys

from torch.distributed.pipelining import schedules


class Loaded(schedules._PipelineScheduleRuntime):
    """The runtime of a schedule without stages and processes: what its loading looks at."""

    def __init__(self, ranks, stages, micro_batches):
        self.pp_group_size, self._num_stages, self._n_microbatches = ranks, stages, micro_batches
        self.pipeline_order, self._stages = {}, []
        self._unshard_lookahead, self._max_active_stages, self._max_outstanding_sends = "auto", 3, None
        self._defer_reduce_grad_wait = self._defer_pp_recv = False


def passes(action):
    return action.sub_actions or (action,)


def main():
    file, out = sys.argv[1:]
    with open(file, newline="") as text:
        rows = [[schedules._Action.from_str(cell) for cell in row if cell] for row in csv.reader(text)]
    every = [one for row in rows for action in row for one in passes(action)]
    schedule = Loaded(len(rows), 1 + max(one.stage_index for one in every), 1 + max(one.microbatch_index for one in every))
    schedule._load_csv(file)
    schedule._dump_csv(out)
    # The simulator knows passes and transfers alone, and pairs as two passes.
    kinds = ("UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD", "WAIT_SEND_F", "WAIT_SEND_B")
    moves = {rank: [one for action in row for one in passes(action) if one.computation_type.value not in kinds]
             for rank, row in schedule.pipeline_order_with_comms.items()}
    simulated = schedules._simulate_comms_compute(
        moves, lambda stage: schedule.stage_index_to_group_rank[stage], schedule._num_stages)
    print(json.dumps({"ranks": len(rows), "steps": max(len(row) for row in simulated.values())}))


if __name__ == "__main__":
    main()
