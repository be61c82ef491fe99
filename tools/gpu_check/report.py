"""The report as Markdown, and the limits of its folder."""
import json
import sqlite3

from gpu_check import limits


def middle(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def figure(runs, *path):
    """The median over the runs that have this value."""
    values = []
    for run in runs:
        for key in path:
            run = run.get(key) if isinstance(run, dict) else None
        if isinstance(run, (int, float)):
            values.append(run)
    return middle(values)


def cell(value, scale=1.0, digits=3):
    return "" if value is None else f"{value * scale:.{digits}f}"


def bench_table(results):
    lines = [f"Device: {results['device']}" + ("" if results["torch"] else "; PyTorch with a GPU was not found or left out") + ".", "",
             "| row | predicted ms | measured ms | error | tokens/s | MFU | predicted GiB | measured GiB | torch eager ms | torch compiled ms | torch GiB |",
             "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for entry in results["rows"]:
        ours = entry["ours"]
        if "does_not_fit" in entry:
            continue  # part_bench says why
        predicted, measured = figure(ours, "predicted", "step_time_s"), figure(ours, "measured", "step_time_s")
        error = None if not predicted or not measured else predicted / measured - 1
        lines.append("| " + " | ".join([
            entry["name"], cell(predicted, 1e3), cell(measured, 1e3), cell(error, 100, 1) + (" %" if error is not None else ""),
            cell(figure(ours, "measured", "tokens_per_s"), 1, 0), cell(figure(ours, "measured", "mfu")),
            cell(figure(ours, "predicted", "peak_memory_gib"), 1, 2), cell(figure(ours, "measured", "peak_memory_gib"), 1, 2),
            cell(figure(entry["torch_eager"], "step_time_s"), 1e3), cell(figure(entry["torch_compiled"], "step_time_s"), 1e3),
            cell(figure(entry["torch_eager"], "peak_memory_gib"), 1, 2)]) + " |")
    return lines


def tests_table(results):
    lines = ["| binary | ran | passed | failed | failed among others only |", "|---|---:|---:|---:|---:|"]
    for name, result in results.items():
        if "skipped" in result:
            lines.append(f"| {name} | skipped: {result['skipped']} | | | |")
        else:
            lines.append(f"| {name} | {result['ran']} | {result['passed']} | {len(result['failed'])} | {len(result['only_among_others'])} |")
    return lines


def report(state):
    machine = state.get("machine", {})
    gpus = ", ".join(f"{gpu['name']} ({gpu['memory']}, driver {gpu['driver']}, compute capability {gpu['compute_capability']})"
                     for gpu in machine.get("gpus", [])) or "no GPU"
    lines = ["# gpu-check", "", f"{gpus}; {machine.get('cores')} cores; nvcc {machine.get('nvcc')}; {state.get('written', '')}; sources {state['sources']}.",
             "", "| part | | seconds |", "|---|---|---:|"]
    parts = state["parts"]
    lines += [f"| {name} | {parts[name]['status']} | {parts[name]['seconds']:.0f} |" for name in limits.PARTS if name in parts]
    lines += ["", *(f"Over the limits: {problem}." for problem in state.get("limits", []))]
    for name in limits.PARTS:
        part = parts.get(name)
        if part is None:
            continue
        results = part.get("results") or {}
        lines += ["", f"## {name}", ""]
        if part["why"]:
            lines += ["```", part["why"], "```", ""]
        if name == "tests" and results:
            lines += tests_table(results)
        elif name == "bench" and results.get("rows"):
            lines += bench_table(results)
        elif results:
            lines += ["```json", json.dumps(results, indent=1)[:20000], "```"]
    return "\n".join(lines) + "\n"


def spans_in(store):
    """Counts the spans of all runs, and folds the store into one file."""
    connection = sqlite3.connect(store)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("VACUUM")
        return connection.execute("SELECT count(*) FROM span").fetchone()[0]
    finally:
        connection.close()


def keep_limits(check):
    """Keeps to 8 files of 16 MiB and 200,000 spans in the store; returns the limits that are exceeded."""
    log = check.out / "log.txt"
    if log.stat().st_size > limits.MAX_BYTES:
        data = log.read_bytes()
        log.write_bytes(b"(the beginning is left out)\n" + data[-(limits.MAX_BYTES // 2):])
    store = check.out / "runs.db"
    problems = []
    if store.exists():
        try:
            check.state["spans"] = spans_in(store)
            if check.state["spans"] > limits.MAX_SPANS:
                problems.append(f"{store.name} has {check.state['spans']} spans, over {limits.MAX_SPANS}")
        except sqlite3.Error as error:
            problems.append(f"{store.name} cannot be read: {error}")
    files = [path for path in check.out.iterdir() if path.is_file()]
    if len(files) > limits.MAX_FILES:
        problems.append(f"{check.out} holds {len(files)} files, over {limits.MAX_FILES}")
    problems += [f"{path.name} has {path.stat().st_size} bytes, over {limits.MAX_BYTES}" for path in files if path.stat().st_size > limits.MAX_BYTES]
    return problems
