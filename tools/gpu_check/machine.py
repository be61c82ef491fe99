"""The machine: cores, GPUs, driver and CUDA toolkit."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys


def cores():
    """Cores that this process may use, which a container limits."""
    usable = len(os.sched_getaffinity(0))
    try:
        quota, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        usable = min(usable, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no limit
    return usable


def output_of(command):
    """Output of a command that ends at once; "" if it cannot be run or fails."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""


def version_in(text, pattern):
    """The version after `pattern` as a tuple of numbers; None if the text has none."""
    found = re.search(pattern + r"(\d+(?:\.\d+)*)", text)
    return tuple(int(number) for number in found.group(1).split(".")) if found else None


def find_nvcc():
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    for path in (os.environ.get("CUDACXX"), home and home + "/bin/nvcc", shutil.which("nvcc"), "/usr/local/cuda/bin/nvcc"):
        if path and os.access(path, os.X_OK):
            return path
    return None


def find_nccl(nvcc):
    """The folder of NCCL's Python wheel, if the toolkit has no NCCL."""
    beside = pathlib.Path(nvcc).resolve().parent.parent / "include" / "nccl.h"
    if os.environ.get("NCCL_ROOT") or beside.exists() or pathlib.Path("/usr/include/nccl.h").exists():
        return os.environ.get("NCCL_ROOT")
    try:
        import nvidia.nccl  # pylint: disable=import-outside-toplevel
        return list(nvidia.nccl.__path__)[0]
    except (ImportError, AttributeError, IndexError):
        return None


def find_gpus():
    """Name, driver, compute capability and memory of each GPU, from nvidia-smi or else from the driver."""
    fields = ("name", "driver", "compute_capability", "memory")
    text = output_of(["nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.total", "--format=csv,noheader"])
    rows = [[cell.strip() for cell in line.split(",")] for line in text.strip().splitlines()]
    good = all(len(row) == 4 and re.fullmatch(r"\d+\.\d+", row[2]) for row in rows)
    return [dict(zip(fields, row)) for row in rows] if good and rows else ask_driver()


def load_driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def cuda_of_driver():
    """The newest CUDA version that the driver's library runs; None without the library. It needs no initialisation. A
    compatibility package may provide a newer library than the driver itself has."""
    driver, version = load_driver(), ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return (version.value // 1000, version.value % 1000 // 10)


def ask_driver():
    """The GPUs that libcuda.so.1 shows, if nvidia-smi is missing or too old to report capabilities."""
    driver, count = load_driver(), ctypes.c_int()
    if driver is None or driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    version = cuda_of_driver() or (0, 0)
    gpus = []
    for index in range(count.value):
        device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
        major, minor = ctypes.c_int(), ctypes.c_int()
        if driver.cuDeviceGet(ctypes.byref(device), index) != 0:
            continue
        driver.cuDeviceGetName(name, len(name), device)
        driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device)  # capability: major and minor
        driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
        gpus.append({"name": name.value.decode(errors="replace"), "memory": f"{memory.value >> 20} MiB",
                     "driver": f"of CUDA {version[0]}.{version[1]}", "compute_capability": f"{major.value}.{minor.value}"})
    return gpus


def describe_machine():
    return {"gpus": find_gpus(), "nvcc": find_nvcc(), "cores": cores(), "system": " ".join(os.uname()[:3:2]),
            "python": sys.version.split()[0]}


def arch_of(gpus, asked):
    """The architecture to build for, such as "90": the one asked for, else the first GPU's."""
    return asked or (gpus[0]["compute_capability"].replace(".", "") if gpus else "90")
