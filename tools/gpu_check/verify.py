"""The parts that build and check: build, devices, tests, memcheck, steps. Each returns its status, why, and its results."""
import json
import os
import pathlib
import re
import shutil

from gpu_check import limits
from gpu_check.check import ROOT, remove_store
from gpu_check.limits import FAILED, LEFT_OUT, PASSED, SHORT, WAITS
from gpu_check.machine import arch_of, find_nccl

SKIPPED = 77  # exit status of a test binary without a device


def part_build(check):
    nvcc = check.state["machine"]["nvcc"]
    if nvcc is None:
        return FAILED, "no nvcc was found; set CUDACXX or CUDA_HOME, or install the CUDA toolkit", {}
    gpus = check.state["machine"]["gpus"]
    arch = arch_of(gpus, check.arguments.arch)
    environment = {"CUDACXX": nvcc}
    if os.environ.get("CXX"):
        environment["CUDAHOSTCXX"] = os.environ.get("CUDAHOSTCXX", os.environ["CXX"])  # one compiler for all sources
    nccl = find_nccl(nvcc)
    if nccl:
        environment["NCCL_ROOT"] = nccl
    configure = ["cmake", "--preset", "gpu", "-B", check.build, f"-DCMAKE_CUDA_ARCHITECTURES={arch}-real"]
    if shutil.which("ninja") is None:
        configure += ["-G", "Unix Makefiles"]
    deps = pathlib.Path(check.arguments.deps).resolve() / "usr"
    if deps.is_dir():
        configure += [f"-DCMAKE_PREFIX_PATH={deps}", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF"]
    outcome = check.run(configure, environment=environment)
    if not outcome.good():
        return FAILED, outcome.why(), {"seconds_configure": outcome.seconds}
    results = {"arch": arch, "nccl": nccl, "deps": str(deps) if deps.is_dir() else None, "seconds_configure": outcome.seconds}
    command = ["cmake", "--build", check.build, "-j", check.arguments.jobs, "--target", "foretrain_with_cuda", "gpu_tests"]
    outcome = check.run(command, environment=environment)
    results["seconds_build"] = outcome.seconds
    if not outcome.good():
        return FAILED, outcome.why(), results
    return PASSED, "", results


def part_devices(check):
    outcome = check.run([check.binary("foretrain"), "devices", "--json"], merge=False)
    if not outcome.good():
        return FAILED, outcome.why(), {}
    found = outcome.json() or {}
    if any(device.get("name") == "cuda" for device in found.get("devices", [])):
        return PASSED, "", found
    why = found.get("why_no_cuda", "foretrain devices says nothing of CUDA")
    return (WAITS, why, found) if check.arguments.allow_no_gpu else (FAILED, why, found)


def gtest_run(check, binary, names, extra=(), prefix=(), limit_s=None):
    """Runs the named tests, or all without names. Returns each test's outcome and text, and the process's outcome. A test
    interrupted by the time limit has a text but no outcome."""
    command = [*prefix, binary, *extra]
    if names:
        command.append("--gtest_filter=" + ":".join(names))
    outcome = check.run(command, limit_s=limit_s)
    tests, texts, running, text = {}, {}, None, []
    for line in outcome.output.splitlines():
        started = re.match(r"\[ RUN      \] (\S+)", line)
        ended = re.match(r"\[\s*(OK|FAILED|SKIPPED)\s*\] ([^\s,]+)", line)
        if started:
            running, text = started.group(1), []
        elif ended and ended.group(2) == running:
            word = ended.group(1)
            tests[running] = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": "skipped"}[word]
            if word != "OK":
                texts[running] = "\n".join(text[-12:])
            running = None
        elif running:
            text.append(line)
    if running and not outcome.late:
        tests[running] = FAILED
        texts[running] = f"the process ended with {outcome.status}\n" + "\n".join(text[-12:])
    if running and outcome.late:
        texts[running] = "time ended in it\n" + "\n".join(text[-12:])
    return tests, texts, outcome


def listed_tests(check, binary):
    """Names of a binary's tests, in order; none without a device."""
    names, suite = [], ""
    for line in check.run([binary, "--gtest_list_tests"], limit_s=60).output.splitlines():
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def run_tests_of(check, binary):
    """Runs all tests of one binary. If a test ends the process, the remaining tests run in another one. Failed tests are
    repeated alone, because a kernel's error ends the device's context."""
    tests, texts, outcome = gtest_run(check, binary, [])
    if outcome.status == SKIPPED:
        lines = outcome.output.strip().splitlines()
        return {"skipped": lines[-1] if lines else "no reason given"}
    if outcome.status not in (0, 1) and not outcome.late:
        left = [name for name in listed_tests(check, binary) if name not in tests]
        while left and check.left_s() > 5:
            more, why, outcome = gtest_run(check, binary, left)
            tests.update(more)
            texts.update(why)
            if outcome.late or not more:
                break
            left = [name for name in left if name not in more]
    again = [name for name, status in tests.items() if status == FAILED]
    for name in again:
        if check.left_s() < 5:
            break
        alone, why, _ = gtest_run(check, binary, [name], limit_s=60)
        tests[name] = alone.get(name, FAILED)
        if name in why:
            texts[name] = why[name]
        elif tests[name] == PASSED:
            texts[name] = "failed among the others, passed alone:\n" + texts.get(name, "")
    result = {"ran": len(tests), "passed": sum(status == PASSED for status in tests.values()),
              "failed": {name: texts.get(name, "") for name, status in tests.items() if status == FAILED},
              "only_among_others": {name: texts[name] for name in again if tests[name] == PASSED}}
    if outcome.late:
        result["ended_for_time"] = next((name for name in texts if name not in tests), "before the first test")
    elif not outcome.good() and not again:
        result["failed"]["(the process)"] = outcome.why()
    return result


def test_binaries(check):
    return sorted(path for path in (check.build / "tests").glob("*_gpu_tests") if os.access(path, os.X_OK))


def part_tests(check):
    binaries = test_binaries(check)
    if not binaries:
        return FAILED, f"no *_gpu_tests in {check.build / 'tests'}: run the part build first", {}
    results = {}
    for binary in binaries:
        results[binary.name] = run_tests_of(check, binary)
        check.note(results)
    if all("skipped" in result for result in results.values()):
        why = next(iter(results.values()))["skipped"]
        return (WAITS if check.arguments.allow_no_gpu else FAILED), why, results
    bad = [f"{name}: {test}\n{text}" for name, result in results.items() for test, text in result.get("failed", {}).items()]
    late = [f"{name} at {result['ended_for_time']}" for name, result in results.items() if result.get("ended_for_time")]
    if late:
        bad.append("ended for time: " + ", ".join(late))
    if late and len(bad) == 1 and check.arguments.quick:
        return SHORT, bad[0], results
    return (FAILED if bad else PASSED), "\n\n".join(bad[:20]), results


def part_memcheck(check):
    tool = shutil.which("compute-sanitizer") or str(pathlib.Path(check.state["machine"]["nvcc"] or "/").resolve().parent / "compute-sanitizer")
    if not os.access(tool, os.X_OK):
        return LEFT_OUT, "compute-sanitizer was not found", {}
    if not check.state["machine"]["gpus"] and check.arguments.allow_no_gpu:
        return WAITS, "compute-sanitizer needs a device", {}
    binary = check.build / "tests" / "kernels_gpu_tests"
    results, bad = {}, []
    for kind in ["memcheck"] if check.arguments.quick else ["memcheck", "racecheck", "initcheck"]:
        prefix = [tool, "--tool", kind, "--error-exitcode", "9"]
        tests, _, outcome = gtest_run(check, binary, [], ["--unguarded"], prefix,
                                      limit_s=None if check.arguments.quick else limits.DEADLINE_S["memcheck"] / 3)
        found = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", outcome.output)
        of = re.search(r"Running (\d+) tests? from", outcome.output)
        results[kind] = {"tests": len(tests), "of": int(of.group(1)) if of else None,
                         "errors": int(found.group(1)) if found else None, "ended_for_time": outcome.late}
        check.note(results)
        clean = not re.search(r"========= (?!COMPUTE-SANITIZER)", outcome.output) and FAILED not in tests.values()
        if not outcome.good() and not (outcome.late and clean):
            bad.append(outcome.why())
    if bad:
        return FAILED, "\n\n".join(bad), results
    late = [f"{kind}: time ended after {result['tests']} of {result['of'] or 'all'} tests, which were clean"
            for kind, result in results.items() if result["ended_for_time"]]
    return (SHORT if late else PASSED), "; ".join(late), results


def part_steps(check):
    """Three steps of a small model on both devices: losses within 1 part in 1000, and equal bits with CUDA graphs."""
    losses = {}
    store = check.build / "steps.db"
    for run, device in (("cpu", "cpu"), ("cuda", "cuda"), ("cuda_graphs", "cuda")):
        if device == "cuda" and not check.state["machine"]["gpus"] and check.arguments.allow_no_gpu:
            return WAITS, "the steps on the CPU ran", {"losses": losses}
        remove_store(store)
        outcome = check.run([check.binary("foretrain"), "train", "--model", "gpt-10m", "--layers", "2", "--data", ROOT / "README.md",
                             "--sequence", "128", "--ranks", "1", "--micro-batch", "2", "--global-batch", "4", "--steps", "3",
                             "--device", device, "--store", store, "--json",
                             *(["--cuda-graphs", "on", "--capture", "off"] if run == "cuda_graphs" else [])], merge=False)
        if not outcome.good():
            return FAILED, outcome.why(), {"losses": losses}
        lines = [json.loads(line) for line in outcome.output.splitlines() if line.startswith('{"step"')]
        losses[run] = [line["loss"] for line in lines]
        check.note({"losses": losses})
    remove_store(store)
    cpu, cuda = losses["cpu"], losses["cuda"]
    # NaN makes the comparison false.
    alike = [isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-3 * abs(a) for a, b in zip(cpu, cuda)]
    if len(cpu) != 3 or len(cuda) != 3 or not all(alike):
        return FAILED, f"losses differ: {losses}", {"losses": losses}
    graphs = (outcome.json() or {}).get("graphs") or {}
    results = {"losses": losses, "graphs": graphs, "largest_difference": max(abs(a - b) / abs(a) for a, b in zip(cpu, cuda))}
    if losses["cuda_graphs"] != cuda:
        return FAILED, f"losses with --cuda-graphs on are others: {losses}", results
    if not graphs.get("launches") or graphs.get("refused"):
        return FAILED, f"--cuda-graphs on: {json.dumps(graphs)}; log.txt says why", results
    return PASSED, "", results
