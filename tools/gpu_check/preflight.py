"""Checks in a second that the machine has all that the build and the runs need. Nothing is compiled: programs print their
versions, and files are read.

`look` collects facts, `problems_of` compares them with the requirements, which come from the CMake files. Each problem is
one sentence with its remedy. Leaves out what only the build itself can find, such as a broken library."""
import os
import pathlib
import re
import shlex
import shutil
import sys

from gpu_check import limits
from gpu_check.check import ROOT
from gpu_check.machine import arch_of, cuda_of_driver, output_of, version_in

PYTHON = (3, 9)
COMPILERS = {"g++": 12, "clang": 14}  # major versions
BUILD_BYTES = 2 << 30  # a build with tests takes 0.8 GiB; temporary files of nvcc and the results are added
# The oldest driver that runs programs of a CUDA toolkit, by the toolkit's major version (CUDA Compatibility, "Minor Version
# Compatibility"). It also runs those of later minor versions.
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
# The first toolkit that compiles for a compute capability (release notes of CUDA). It is used for the remedy alone: nvcc
# lists what it knows.
FIRST_TOOLKIT = {"8.9": "11.8", "9.0": "11.8", "10.0": "12.8", "12.0": "12.8", "10.3": "12.9", "12.1": "12.9", "11.0": "13.0"}
PACKAGES = {"SQLite3": "libsqlite3-dev", "nlohmann_json": "nlohmann-json3-dev", "CLI11": "libcli11-dev", "fmt": "libfmt-dev",
            "tl-expected": "libexpected-dev", "GTest": "libgtest-dev libgmock-dev"}
TOOLKIT_HEADERS = {"cuda_runtime.h": "cuda-cudart-dev", "cublasLt.h": "libcublas-dev", "nvtx3/nvToolsExt.h": "cuda-nvtx"}


def text_of(version):
    return ".".join(str(number) for number in version)


def readable(facts):
    """The facts with versions as text, for the report."""
    if isinstance(facts, dict):
        return {key: readable(value) for key, value in facts.items()}
    return text_of(facts) if isinstance(facts, tuple) else facts


def requirements():
    """Oldest versions from the CMake files: of CMake, the CUDA toolkit and packages, by name."""
    found = {"CMake": version_in((ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), r"cmake_minimum_required\(VERSION ")}
    for name in ("cmake/packages.cmake", "cmake/cuda.cmake", "cmake/googletest.cmake"):
        for package, version in re.findall(r"^find_package\((\S+) ([\d.]+)", (ROOT / name).read_text(encoding="utf-8"), re.M):
            found[package] = tuple(int(number) for number in version.split("."))
    return found


# ---- facts

def compiler_of(command):
    """Kind and version of a C++ compiler; None if it does not run, an empty kind if it is neither g++ nor clang."""
    text = output_of([*command, "--version"])
    if not text:
        return None
    for kind, pattern in (("clang", r"clang version "), ("g++", r"^[^\n]*\) ")):
        version = version_in(text, pattern)
        if version:
            return {"command": " ".join(command), "kind": kind, "version": version}
    return {"command": " ".join(command), "kind": "", "version": (0,)}


def find_compiler():
    """The compiler that CMake takes."""
    if os.environ.get("CXX"):
        return compiler_of(shlex.split(os.environ["CXX"]))
    names = [name for name in ("c++", "g++", "clang++") if shutil.which(name)]
    return compiler_of(names[:1]) if names else None


def toolkit_of(nvcc):
    """The CUDA toolkit: its version, the GPUs that it knows, headers that it lacks and the newest host compilers that it
    takes. None without nvcc."""
    if nvcc is None:
        return None
    home = pathlib.Path(nvcc).resolve().parent.parent
    facts = {"home": str(home), "version": version_in(output_of([nvcc, "--version"]), "release "),
             "codes": output_of([nvcc, "--list-gpu-code"]).split(), "missing": [], "newest_host": {}}
    include = next((path for path in (home / "include", *home.glob("targets/*/include")) if (path / "crt").is_dir()), None)
    if include is None:
        return facts  # an unusual layout: CMake finds it or says why not
    facts["missing"] = [name for name in TOOLKIT_HEADERS if not (include / name).exists()]
    try:
        text = (include / "crt" / "host_config.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return facts
    # "#if __GNUC__ > 15" refuses later versions, and so does "#if (__clang_major__ >= 21)".
    for kind, pattern, step in (("g++", r"__GNUC__ > ", 0), ("clang", r"__clang_major__ >= ", 1)):
        refused = version_in(text, pattern)
        if refused:
            facts["newest_host"][kind] = refused[0] - step
    return facts


def prefixes(deps):
    """Folders in which CMake looks for packages: that of tools/fetch-deps, those of CMAKE_PREFIX_PATH and PATH, the system's."""
    named = [path for path in os.environ.get("CMAKE_PREFIX_PATH", "").split(os.pathsep) if path]
    beside = [pathlib.Path(path).parent for path in os.environ.get("PATH", "").split(os.pathsep) if path.rstrip("/").endswith("/bin")]
    every = [deps / "usr", *map(pathlib.Path, named), *beside, pathlib.Path("/usr/local"), pathlib.Path("/usr")]
    return list(dict.fromkeys(every))


def versions_of(package, folders):
    """Versions of a package under the folders, from the files by which CMake chooses. For GoogleTest also those of its
    sources."""
    patterns = [f"{libraries}/cmake/{package}*/{package}{end}" for libraries in ("lib", "lib/*", "lib64", "share")
                for end in ("ConfigVersion.cmake", "-config-version.cmake")]
    before = r'PACKAGE_VERSION "'
    if package == "SQLite3":
        patterns, before = ["include/sqlite3.h"], r'#define SQLITE_VERSION\s+"'
    found = [(path, before) for folder in folders for pattern in patterns for path in folder.glob(pattern)]
    if package == "GTest":
        found += [(folder / "src/googletest/CMakeLists.txt", r"GOOGLETEST_VERSION ") for folder in folders]
    versions = []
    for path, before in found:
        try:
            versions.append(version_in(path.read_text(encoding="utf-8", errors="replace"), before))
        except OSError:
            pass  # no sources there
    return sorted(version for version in versions if version)


def existing(path):
    """The path, or the nearest folder above it that exists."""
    return path if path.exists() else existing(path.parent)


def look(check):
    folders = prefixes(pathlib.Path(check.arguments.deps).resolve())
    found = {package: versions_of(package, folders) for package in PACKAGES}
    return {"python": tuple(sys.version_info[:3]), "cmake": version_in(output_of(["cmake", "--version"]), "cmake version "),
            "generator": next((name for name in ("ninja", "make") if shutil.which(name)), None),
            "compiler": find_compiler(), "toolkit": toolkit_of(check.machine["nvcc"]), "driver_cuda": cuda_of_driver(),
            "packages": {package: versions[-1] if versions else None for package, versions in found.items()},
            "free_bytes": shutil.disk_usage(existing(check.build)).free}


# ---- problems

def program_problems(facts, needs):
    """Python, CMake, Ninja and the C++ compiler."""
    problems = []
    if facts["python"] < PYTHON:
        problems.append(f"Python {text_of(facts['python'])} runs this script, which needs {text_of(PYTHON)} or later: start it "
                        "with a later one, e.g. python3.11 tools/gpu-check")
    wanted = text_of(needs["CMake"])
    if facts["cmake"] is None:
        problems.append(f"cmake was not found, and the build needs {wanted} or later: pip install cmake")
    elif facts["cmake"] < needs["CMake"]:
        problems.append(f"cmake is {text_of(facts['cmake'])}, and the build needs {wanted} or later: pip install cmake")
    if facts["generator"] is None:
        problems.append("neither ninja nor make was found: apt-get install ninja-build")
    return problems + compiler_problems(facts["compiler"], facts["toolkit"])


def compiler_problems(compiler, toolkit):
    use = "apt-get install {0}, then run with CXX={0}"
    if compiler is None:
        return [f"no C++ compiler runs here: {use.format('g++-12')}"]
    kind, major = compiler["kind"], compiler["version"][0]
    name = f"{compiler['command']} is {kind} {text_of(compiler['version'])}"
    if kind and major < COMPILERS[kind]:
        return [f"{name}, and the build needs g++ {COMPILERS['g++']} or clang {COMPILERS['clang']}: {use.format('g++-12')}"]
    newest = toolkit["newest_host"].get(kind) if toolkit else None
    if newest is not None and major > newest:
        other = f"g++-{newest}" if kind == "g++" else f"clang-{newest}"
        return [f"{name}, and nvcc takes {kind} up to {newest}: apt-get install {other}, then run with "
                f"CXX={other.replace('clang', 'clang++')}"]
    return []


def toolkit_problems(facts, needs, gpus, arch):
    toolkit, wanted = facts["toolkit"], text_of(needs["CUDAToolkit"])
    if toolkit is None:
        return [f"no nvcc was found: install the CUDA toolkit {wanted} or later, or set CUDACXX or CUDA_HOME"]
    if toolkit["version"] is None:
        return [f"nvcc of {toolkit['home']} does not print its version: install the CUDA toolkit {wanted} or later"]
    problems, cuda = [], f"nvcc is of CUDA {text_of(toolkit['version'])}"
    if toolkit["version"] < needs["CUDAToolkit"]:
        problems.append(f"{cuda}, and the plugin needs {wanted} or later: install a later toolkit and set CUDA_HOME to it")
    if toolkit["codes"] and f"sm_{arch}".rstrip("af") not in toolkit["codes"]:
        of_gpu = f" ({gpus[0]['name']})" if gpus else ""
        capability = re.sub(r"(\d)[af]?$", r".\1", arch)
        first = FIRST_TOOLKIT.get(capability)
        problems.append(f"{cuda}, which cannot compile for compute capability {capability}{of_gpu}: install "
                        + (f"CUDA {first} or later" if first else "a toolkit that can") + " and set CUDA_HOME to it")
    if toolkit["missing"]:
        release = "-".join(str(number) for number in toolkit["version"][:2])
        packages = " ".join(f"{TOOLKIT_HEADERS[name]}-{release}" for name in toolkit["missing"])
        problems.append(f"the CUDA toolkit in {toolkit['home']} lacks {', '.join(toolkit['missing'])}: apt-get install {packages}, "
                        "or use the container image whose tag has -devel")
    return problems + (driver_problems(toolkit["version"], facts["driver_cuda"], gpus[0]["driver"], needs) if gpus else [])


def driver_problems(toolkit, driver_cuda, driver, needs):
    """Compares the driver with the toolkit. `driver_cuda`: the CUDA version of libcuda.so.1; without it the driver's number
    decides."""
    major, number = toolkit[0], version_in(driver, "^")
    oldest = OLDEST_DRIVER.get(major)
    if driver_cuda is not None:
        runs = driver_cuda[0]
    elif number is not None:
        runs = max((cuda for cuda, first in OLDEST_DRIVER.items() if first <= number[0]), default=0)
        if oldest is None:
            return []  # a toolkit later than the table
    else:
        return []
    if runs >= major:
        return []
    other = f", or install a CUDA {runs} toolkit of {text_of(needs['CUDAToolkit'])} or later and set CUDA_HOME to it"
    return [f"driver {driver} is too old for CUDA {text_of(toolkit)}" + (f", which needs {oldest} or later" if oldest else "")
            + ": update the driver" + (other if runs >= needs["CUDAToolkit"][0] else "")]


def package_problems(packages, needs):
    missing = [name for name, version in packages.items() if version is None]
    old = [name for name, version in packages.items() if version is not None and version < needs[name]]
    problems = []
    if missing:
        problems.append("packages of the build were not found: " + ", ".join(f"{name} {text_of(needs[name])}" for name in missing)
                        + ": apt-get install " + " ".join(PACKAGES[name] for name in missing)
                        + ", or run tools/fetch-deps where there is a network and copy .deps here")
    if old:
        problems.append("packages of the build are too old: "
                        + ", ".join(f"{name} {text_of(packages[name])} (needed: {text_of(needs[name])})" for name in old)
                        + ": run tools/fetch-deps on a Debian 12 machine and copy .deps here")
    return problems


def disk_problems(folder, free_bytes):
    if free_bytes >= BUILD_BYTES:
        return []
    return [f"{folder} has {free_bytes / 2**30:.1f} GiB free, and the build needs {BUILD_BYTES / 2**30:.0f} GiB: free some, or "
            "name another folder with --build"]


def build_problems(check, facts):
    needs, gpus = requirements(), check.machine["gpus"]
    return (program_problems(facts, needs) + toolkit_problems(facts, needs, gpus, arch_of(gpus, check.arguments.arch))
            + package_problems(facts["packages"], needs) + disk_problems(check.build, facts["free_bytes"]))


def part_preflight(check):
    """The build's needs count if the build will run, or if nothing else was asked for."""
    parts, problems = check.arguments.parts, []
    builds = parts == ["preflight"] or ("build" in parts and not check.passed_before("build"))
    if not check.machine["gpus"] and not check.arguments.allow_no_gpu:
        problems.append("neither nvidia-smi nor libcuda.so.1 shows a GPU here: start the container with --gpus all, or give "
                        "--allow-no-gpu to do what can be done without one")
    facts = look(check) if builds else {}
    if builds:
        problems += build_problems(check, facts)
    return (limits.FAILED if problems else limits.PASSED), "\n".join(problems), readable(facts)
