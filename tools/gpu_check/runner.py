"""Runs the parts in order, and keeps the result of what ran if a signal ends them."""
import signal
import sqlite3
import time

from gpu_check import limits, measure, preflight, verify
from gpu_check.limits import BAD, FAILED, RUNNING

RUN = {"preflight": preflight.part_preflight, "build": verify.part_build, "devices": verify.part_devices,
       "tests": verify.part_tests, "memcheck": verify.part_memcheck, "steps": verify.part_steps,
       "calibrate": measure.part_calibrate, "bench": measure.part_bench}


class Stopped(BaseException):
    """A signal asks the script to end."""


def why_not_run(check, name):
    if name in ("preflight", "build"):
        return None
    if check.state["parts"].get("build", {}).get("status") in BAD:
        return "the part build did not pass"
    return None if check.binary("foretrain").exists() else "there is no build: run the part build first"


def run_part(check, name, behind):
    """Runs one part, unless it has passed. `behind`: the parts after it."""
    if check.passed_before(name):
        print(f"{name}: passed before", flush=True)
        return
    check.part, check.part_begin = name, time.monotonic()
    check.part_end = check.part_begin + (limits.QUICK_S if check.arguments.quick else limits.DEADLINE_S)[name]
    check.reserved_s = sum(limits.RESERVED_S.get(part, 0) for part in behind)
    why = why_not_run(check, name)
    if why is not None:
        check.end(FAILED, why, {})
        print(f"{name}: {FAILED}: {why}", flush=True)
        return
    print(f"{name}: ...", flush=True)
    check.note({})
    try:
        status, why, results = RUN[name](check)
    except (OSError, ValueError, KeyError, TypeError, sqlite3.Error) as error:
        status, why, results = FAILED, f"{type(error).__name__}: {error}", check.state["parts"][name]["results"]
    check.end(status, why, results)
    first = why.strip().splitlines()[:1]
    print(f"{name}: {status}, {time.monotonic() - check.part_begin:.0f} s" + "".join(f": {line}" for line in first), flush=True)


def run_parts(check):
    """Runs all chosen parts, or none after a preflight that found problems. Returns the number of the signal that ended them,
    or 0."""
    def stop(number, _):
        raise Stopped(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        for place, name in enumerate(check.arguments.parts):
            run_part(check, name, check.arguments.parts[place + 1:])
            if check.cannot_run():
                break
        return 0
    except Stopped as stopped:
        number = stopped.args[0]
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)
        part = check.state["parts"].get(check.part, {})
        if part.get("status") == RUNNING:
            check.end(RUNNING, f"{signal.Signals(number).name} ended it; log.txt ends with its output", part["results"])
        return number


