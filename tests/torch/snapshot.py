"""Reads a memory snapshot with PyTorch's own tool, or writes one of a training on the CPU.

usage: snapshot.py read FILE    prints what torch.cuda._memory_viz makes of it, as JSON
       snapshot.py write FILE   trains a small model under the profiler and writes its memory as a snapshot, as
                                torch.cuda._memory_viz.profile_plot makes one; prints its peak in bytes
"""
import json
import pickle
import sys

import torch
from torch.cuda import _memory_viz as viz


def live_peak(trace, live=0):
    """Largest number of live bytes, and those live in the end."""
    peak = live
    for event in trace:
        if event["action"] == "alloc":
            live += event["size"]
        elif event["action"] == "free_completed":
            live -= event["size"]
        peak = max(peak, live)
    return peak, live


def read(path):
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    summary = viz.segsum(snapshot)  # checks that blocks and segments add up
    lines = viz.memory(snapshot, format_flamegraph=lambda text: text).splitlines()
    plot = viz.trace_plot(snapshot)
    active = sum(int(line.rsplit(" ", 1)[1]) for line in lines if ";active_allocated;" in line and "<gaps>" not in line)
    print(json.dumps({
        "devices": len(snapshot["device_traces"]),
        "peaks": [live_peak(trace)[0] for trace in snapshot["device_traces"]],
        "live": [live_peak(trace)[1] for trace in snapshot["device_traces"]],
        "active": active,
        "segments": int(summary.split("segments: ")[1].split()[0]),
        "entries": viz.trace(snapshot).count(" entries"),
        "plot": "snapshot.pickle" in plot,
    }))


def write(path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.randn(32, 64)).square().mean().backward()
            optimizer.step()
    snapshot = viz._profile_to_snapshot(prof)
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    # Blocks that no event allocates, or that events only free, were live before.
    peaks = []
    for device, trace in enumerate(snapshot["device_traces"]):
        known, before = set(), {}
        for event in trace:
            if event["action"] == "alloc":
                known.add(event["addr"])
            elif event["addr"] not in known and event["action"] == "free_completed":
                before.setdefault(event["addr"], event["size"])
                known.add(event["addr"])
        for segment in snapshot["segments"]:
            address = segment["address"]
            for block in segment["blocks"] if segment["device"] == device else []:
                if block["state"] == "active_allocated" and address not in known:
                    before[address] = block["size"]
                address += block["size"]
        peaks.append(live_peak(trace, sum(before.values()))[0])
    print(json.dumps({"peaks": peaks, "events": [len(trace) for trace in snapshot["device_traces"]]}))


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](sys.argv[2])
