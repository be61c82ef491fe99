"""Names of the parts, how they end, their deadlines, and limits of the results."""

PARTS = ["preflight", "build", "devices", "tests", "memcheck", "steps", "calibrate", "bench"]
DEADLINE_S = {"preflight": 60, "build": 1800, "devices": 60, "tests": 900, "memcheck": 1200, "steps": 240, "calibrate": 300,
              "bench": 3000}
QUICK_S = {"preflight": 20, "build": 300, "devices": 20, "tests": 70, "memcheck": 40, "steps": 40, "calibrate": 60, "bench": 120}
QUICK_LIMIT_S = 8 * 60
# Seconds that --quick reserves for each later part, so that a slow build does not use up their time.
RESERVED_S = {"devices": 3, "tests": 40, "memcheck": 15, "steps": 15, "calibrate": 30, "bench": 60}
QUICK_RUN_S = 45  # one run of the benchmark
QUICK_ROWS = ["gpt2-124m-b4-bf16", "gpt2-124m-b64-bf16"]
MAX_FILES, MAX_BYTES, MAX_SPANS = 8, 16 << 20, 200_000

# How a part ended. WAITS: it needs a GPU, and --allow-no-gpu was given. SHORT: its time ran out, and everything until then
# passed. RUNNING: the script was killed during the part.
PASSED, FAILED, WAITS, LEFT_OUT, SHORT, RUNNING = "passed", "failed", "needs a GPU", "left out", "cut short", "not ended"
BAD = (FAILED, RUNNING)
