"""One run of the checks: its folders, its results so far, its time left, and the commands that it runs."""
import datetime
import hashlib
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from gpu_check import limits
from gpu_check.limits import FAILED, PASSED, RUNNING
from gpu_check.machine import describe_machine
from gpu_check.report import report

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TAIL_LINES = 40


class Check:
    """One run: its folders, its results so far and its time left."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.out = pathlib.Path(arguments.out).resolve()
        self.build = pathlib.Path(arguments.build).resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.state_path = self.out / "gpu-check.json"
        # Unbuffered, so that the output of a killed command is kept.
        self.log = open(self.out / "log.txt", "ab", buffering=0)
        self.begin = time.monotonic()
        self.sources = source_state()
        self.machine = describe_machine()
        self.state = self.read_state()
        self.part = None
        self.part_begin = self.part_end = self.begin
        self.reserved_s = 0

    def rounds(self):
        return self.arguments.rounds or (1 if self.arguments.quick else 3)

    def read_state(self):
        """Results of earlier runs for the same sources on the same GPUs."""
        try:
            state = json.loads(self.state_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            state = None
        if (not isinstance(state, dict) or state.get("sources") != self.sources
                or state.get("machine", {}).get("gpus") != self.machine["gpus"]):
            state = {}
            (self.out / "profile.json").unlink(missing_ok=True)  # of other sources or GPUs
        state.setdefault("schema", 1)
        state["sources"] = self.sources
        state["machine"] = self.machine
        state.setdefault("parts", {})
        return state

    def save(self):
        self.state["written"] = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.state = without_nan(self.state)
        replace(self.state_path, json.dumps(self.state, indent=1, allow_nan=False) + "\n")
        replace(self.out / "gpu-report.md", report(self.state))

    def note(self, results):
        """Saves the running part's results so far, so that the report of a killed script has them."""
        self.end(RUNNING, "the script was killed during this part; log.txt ends with its output", results)

    def end(self, status, why, results):
        self.state["parts"][self.part] = {"status": status, "why": why, "seconds": time.monotonic() - self.part_begin,
                                          "options": self.options_of(self.part), "results": results}
        self.save()

    def left_s(self):
        """Seconds that the part may still take."""
        left = self.part_end - time.monotonic()
        if self.arguments.quick:
            left = min(left, limits.QUICK_LIMIT_S - 10 - self.reserved_s - (time.monotonic() - self.begin))
        return max(left, 0)

    def run(self, command, limit_s=None, environment=None, merge=True):
        """Runs a command within the part's remaining time. Returns its status, its output and whether it ran out of time, in
        which case the output ends there.

        Output goes to the log as it comes, not through a pipe: a process left behind would hold the pipe open."""
        limit = min(self.left_s(), limit_s or float("inf"))
        command = [str(word) for word in command]
        self.log.write(f"\n$ {' '.join(command)}\n".encode())
        if limit < 1:
            return Outcome(command, None, "", "", True, 0)
        begin, at = time.monotonic(), self.log.seek(0, os.SEEK_END)
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self.log,
                                           stderr=subprocess.STDOUT if merge else errors, start_new_session=True,
                                           env={**os.environ, **(environment or {})})
            except OSError as error:
                return Outcome(command, 127, str(error), "", False, 0)
            late, output = not ends_within(process, limit), None
            if late:
                output = self.logged_from(at)  # before the signal, at which tools may complain
                end(process)
            errors.seek(0)
            error_text = errors.read().decode(errors="replace")
        output = self.logged_from(at) if output is None else output
        self.log.write(error_text.encode())
        return Outcome(command, process.returncode, output, error_text, late, time.monotonic() - begin)

    def logged_from(self, at):
        with open(self.out / "log.txt", "rb") as log:
            log.seek(at)
            return log.read().decode(errors="replace")

    def binary(self, name):
        return self.build / name

    def options_of(self, name):
        """Options that a part's result depends on, besides sources and GPUs."""
        chosen = {"quick": self.arguments.quick}
        if name == "build":
            chosen = {"build": str(self.build), "arch": self.arguments.arch}
        elif name == "bench":
            chosen.update(rows=self.arguments.rows, rounds=self.arguments.rounds, peers=not self.arguments.no_peers)
        return chosen

    def passed_before(self, name):
        """Whether the part has passed with these options, or without --quick if --quick is given now. The machine is
        looked at each time."""
        before = self.state["parts"].get(name, {})
        chosen, then = self.options_of(name), before.get("options", {})
        same = then in (chosen, {**chosen, "quick": False} if "quick" in chosen else chosen)
        there = name != "build" or self.binary("foretrain").exists()
        return name != "preflight" and before.get("status") == PASSED and same and there and not self.arguments.again

    def problems(self):
        """The sentences of a preflight that failed."""
        part = self.state["parts"].get("preflight", {})
        return part["why"].splitlines() if part.get("status") == FAILED else []

    def cannot_run(self):
        return bool(self.problems()) and not self.arguments.anyway


def ends_within(process, limit_s):
    """Returns whether the process ended by itself. Kills it and its session if a signal asks this script to end."""
    try:
        process.wait(timeout=limit_s)
        return True
    except subprocess.TimeoutExpired:
        return False
    except BaseException:
        kill(process, signal.SIGKILL)
        process.wait()
        raise


def end(process):
    """Ends the process and its session."""
    kill(process, signal.SIGTERM)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pass
    kill(process, signal.SIGKILL)
    process.wait()


def kill(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def without_nan(value):
    """The value with null for NaN and infinity, which JSON lacks."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Outcome:
    def __init__(self, command, status, output, errors, late, seconds):
        self.command, self.status, self.output, self.errors = command, status, output, errors
        self.late, self.seconds = late, seconds

    def good(self):
        return self.status == 0 and not self.late

    def why(self):
        text = (self.output + self.errors).strip().splitlines()[-TAIL_LINES:]
        head = "ended for time" if self.late else f"exit status {self.status}"
        return f"{head}: {' '.join(self.command)}\n" + "\n".join(text)

    def json(self):
        """The last line of the output that is a JSON object; None if there is none."""
        for line in reversed(self.output.strip().splitlines()):
            if line.startswith("{"):
                try:
                    return json.loads(line)
                except ValueError:
                    return None
        return None


def replace(path, text):
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def remove_store(store):
    for path in (store, store.with_name(store.name + "-wal"), store.with_name(store.name + "-shm")):
        path.unlink(missing_ok=True)


def source_state():
    """Identifies the sources: the commit if git knows it, and a digest."""
    digest = hashlib.sha256()
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    for folder in ("base", "traces", "sim", "kernels", "profiler", "runtime", "ui", "app", "tests", "cmake", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    try:
        result = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
        commit = result.stdout.strip()[:12] if result.returncode == 0 else ""
    except OSError:
        commit = ""
    return f"{commit or 'no commit'}, sha256 {digest.hexdigest()[:16]}"
