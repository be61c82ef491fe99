"""The parts that measure: calibrate and bench. Each returns its status, why, and its results."""
import json
import sys

from gpu_check import limits
from gpu_check.check import ROOT, remove_store
from gpu_check.limits import FAILED, LEFT_OUT, PASSED, SHORT, WAITS


def needs_gpu(check):
    return not check.state["machine"]["gpus"] and check.arguments.allow_no_gpu


def part_calibrate(check):
    if needs_gpu(check):
        return WAITS, "calibration of a GPU", {}
    seconds = 20 if check.arguments.quick else 120
    (check.out / "profile.json").unlink(missing_ok=True)
    outcome = check.run([check.binary("foretrain"), "calibrate", "--device", "cuda", "--seconds", seconds,
                         "--out", check.out / "profile.json", "--json"], merge=False)
    return (PASSED, "", outcome.json() or {}) if outcome.good() else (FAILED, outcome.why(), {})


def bench_rows(check, device):
    outcome = check.run([check.binary("foretrain"), "bench", "--list", "--json", "--device", device], merge=False)
    listed = outcome.json()
    if not outcome.good() or listed is None:
        return None, outcome.why()
    rows = listed["rows"]
    wanted = check.arguments.rows.split(",") if check.arguments.rows else limits.QUICK_ROWS if check.arguments.quick else None
    if wanted and device == "cuda":
        missing = set(wanted) - {row["name"] for row in rows}
        if missing:
            return None, f"--rows: no row {', '.join(sorted(missing))}; there are {', '.join(row['name'] for row in rows)}"
        rows = [row for row in rows if row["name"] in wanted]
    return rows, ""


def run_ours(check, row, device, spans):
    command = [check.binary("foretrain"), "bench", "--device", device, "--only", row["name"], "--json", "--spans", spans,
               "--store", check.out / "runs.db"]
    profile = check.out / "profile.json"
    if device == "cuda" and profile.exists():
        command += ["--device-profile", profile]
    outcome = check.run(command, limit_s=limits.QUICK_RUN_S if check.arguments.quick else None, merge=False)
    found = outcome.json()
    if outcome.late:
        return {"name": row["name"], "ended_for_time": outcome.seconds}
    if found and found.get("rows"):
        return found["rows"][0]
    return {"name": row["name"], "failed": outcome.why()}


def has_torch(check):
    if check.arguments.no_peers:
        return False
    outcome = check.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.cuda.is_available())"], limit_s=60)
    return outcome.good() and "True" in outcome.output


def run_peer(check, row, compiled):
    command = [sys.executable, ROOT / "tools" / "peers" / "torch_gpt.py", "--device", "cuda", "--row", json.dumps(row["peer"])]
    outcome = check.run(command + (["--compile"] if compiled else []), limit_s=limits.QUICK_RUN_S if check.arguments.quick else None,
                        merge=False)
    return outcome.json() or {"failed": outcome.why()}


def part_bench(check):
    device = "cpu" if needs_gpu(check) else "cuda"
    rows, why = bench_rows(check, device)
    if rows is None:
        return FAILED, why, {}
    if device == "cpu":
        rows = rows[:1]
    remove_store(check.out / "runs.db")
    torch = device == "cuda" and has_torch(check)
    spans = limits.MAX_SPANS // max(1, len(rows))
    results = {"device": device, "torch": torch, "rows": []}
    for row in rows:
        entry = {"name": row["name"], "ours": [], "torch_eager": [], "torch_compiled": []}
        results["rows"].append(entry)
        for turn in range(check.rounds()):
            if check.left_s() < 5:
                entry["ended_for_time"] = True
                break
            ours = run_ours(check, row, device, spans if turn == 0 else 0)
            if "does_not_fit" in ours:
                entry["does_not_fit"] = ours["does_not_fit"]
                break
            entry["ours"].append(ours)
            check.note(results)
            if torch and row.get("peer"):
                entry["torch_eager"].append(run_peer(check, row, False))
                entry["torch_compiled"].append(run_peer(check, row, True))
            check.note(results)
    failed = [f"{entry['name']}: {run['failed']}" for entry in results["rows"] for run in entry["ours"] if "failed" in run]
    late = [f"{entry['name']}: time ended" for entry in results["rows"]
            if entry.get("ended_for_time") or any("ended_for_time" in run for run in entry["ours"])]
    unfit = [f"{entry['name']} is left out: {entry['does_not_fit']}" for entry in results["rows"] if "does_not_fit" in entry]
    if not failed and late and check.arguments.quick:
        return SHORT, "\n".join(late + unfit), results
    if failed or late:
        return FAILED, "\n\n".join((failed + late)[:20]), results
    if device == "cpu":
        return WAITS, "the first row on the CPU ran", results
    return (LEFT_OUT if len(unfit) == len(rows) else PASSED), "\n".join(unfit), results
