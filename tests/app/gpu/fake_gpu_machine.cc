#include "tests/app/gpu/fake_gpu_machine.h"

#include <filesystem>

#include "tests/paths.h"

namespace foretrain {
namespace {

constexpr const char* kNvidiaSmi =
    R"SH(echo "${GPU:-Fake GPU}, ${DRIVER:-580.1}, ${CAPABILITY:-9.0}, ${MEMORY:-143771} MiB"
)SH";

constexpr const char* kNvcc = R"SH(case $1 in
  --version) echo "Cuda compilation tools, release ${TOOLKIT:-13.0}, V${TOOLKIT:-13.0}.88" ;;
  --list-gpu-code) printf '%s\n' ${CODES:-sm_80 sm_89 sm_90 sm_100 sm_120} ;;
esac
)SH";

constexpr const char* kCompiler = R"SH(echo "c++ (Fake 1.2-3) ${GXX:-12.2.0}"
)SH";

// Configuring does nothing; building copies the programs of the build into place.
constexpr const char* kCmake =
    R"SH([ "$1" = --version ] && { echo "cmake version ${CMAKE:-3.25.1}"; exit 0; }
echo "cmake $*" >>"$MACHINE/calls"
[ "$1" = --build ] || exit 0
[ "$HANG" = build ] && exec sleep 60
[ -z "$NOISE" ] || head -c "${NOISE}M" /dev/zero | tr '\0' 'x'
[ "$FAIL" = build ] && { echo "ninja: build stopped"; exit 1; }
mkdir -p "$2/tests"
cp "$MACHINE/bin/a-foretrain" "$2/foretrain"
cp "$MACHINE/bin/a-kernels_gpu_tests" "$2/tests/kernels_gpu_tests"
)SH";

constexpr const char* kForetrain = R"SH(echo "foretrain $*" >>"$MACHINE/calls"
part=$1; [ "$part" = train ] && part=steps
device=cpu; out=; store=; spans=; only=; previous=
for word in "$@"; do
  case $previous in --device) device=$word ;; --out) out=$word ;; --store) store=$word ;; --spans) spans=$word ;; --only) only=$word ;; esac
  previous=$word
done
[ "$HANG" = "$part" ] && exec sleep 60
[ "$FAIL" = "$part" ] && { echo "foretrain: $part went wrong" >&2; exit 3; }
case $part in
  devices) echo '{"devices": [{"name": "cpu"}, {"name": "cuda"}], "why_no_cuda": ""}' ;;
  steps)
    losses="4.5 4.4 4.3"
    [ "$device" = cuda ] && losses=${LOSSES:-4.5 4.4 4.3}
    case " $* " in *" --cuda-graphs on "*) losses=${GRAPHS:-$losses} ;; esac
    step=0
    for loss in $losses; do echo "{\"step\": $step, \"loss\": $loss}"; step=$((step + 1)); done
    echo "{\"graphs\": {\"made\": 2, \"launches\": ${LAUNCHES:-4}, \"refused\": 0}}" ;;
  calibrate) echo '{}' >"$out"; echo '{"points": 3}' ;;
  bench)
    case " $* " in *" --list "*)
      echo '{"rows": [{"name": "gpt2-124m-b4-bf16", "peer": null}, {"name": "gpt2-124m-b64-bf16", "peer": null},'\
' {"name": "other", "peer": null}]}'
      exit 0 ;;
    esac
    python3 -c 'import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
store.execute("CREATE TABLE IF NOT EXISTS span(x)")
store.executemany("INSERT INTO span VALUES(?)", [(i,) for i in range(int(sys.argv[2]))])
store.commit()' "$store" "$([ "$spans" = 0 ] && echo 0 || echo "${SPANS:-3}")"
    case " $UNFIT " in *" $only "*)
      echo '{"rows": [{"name": "a", "does_not_fit": "1 ranks on one device need 60.1 GiB"}]}'
      exit 1 ;;
    esac
    echo '{"rows": [{"name": "a", "predicted": {"step_time_s": 0.1}, "measured": {"step_time_s": 0.125, "mfu": 0.4}}]}' ;;
esac
)SH";

constexpr const char* kTests = R"SH(echo "kernels_gpu_tests $*" >>"$MACHINE/calls"
[ "$HANG" = tests ] && { echo '[ RUN      ] A.One'; echo '[       OK ] A.One (1 ms)'; echo '[ RUN      ] A.Two'; exec sleep 60; }
[ -z "$TESTS" ] || case "$*" in
  *gtest_filter=A.Flaky) echo '[ RUN      ] A.Flaky'; echo '[       OK ] A.Flaky (1 ms)'; exit 0 ;;
  *list_tests*) printf 'A.\n  One\n  Flaky\n  Crash\n  Behind\n'; exit 0 ;;
  *gtest_filter=A.Behind) echo '[ RUN      ] A.Behind'; echo '[       OK ] A.Behind (1 ms)'; exit 0 ;;
  *gtest_filter=A.Crash) echo '[ RUN      ] A.Crash'; kill -SEGV $$ ;;
  *) sed '$d' "$TESTS"; exit $(tail -n 1 "$TESTS") ;;
esac
echo '[ RUN      ] A.One'
[ "$FAIL" = tests ] && { echo 'it is 3, not 4'; echo '[  FAILED  ] A.One (1 ms)'; exit 1; }
echo '[       OK ] A.One (1 ms)'
)SH";

constexpr const char* kSanitizer = R"SH(echo "compute-sanitizer $*" >>"$MACHINE/calls"
ended() { echo "========= Error: process didn't terminate successfully"; echo "========= ERROR SUMMARY: 1 error"; exit 9; }
trap ended TERM
echo "========= COMPUTE-SANITIZER"
echo '[==========] Running 3 tests from 1 test suite.'
echo '[ RUN      ] A.One'
[ "$FAIL" = memcheck ] && echo "========= Invalid __global__ read"
echo '[       OK ] A.One (1 ms)'
[ "$HANG" = memcheck ] && { echo '[ RUN      ] A.Two'; sleep 60 & wait; }
[ "$FAIL" = memcheck ] && ended
echo "========= ERROR SUMMARY: 0 errors"
)SH";

}  // namespace

FakeGpuMachine::FakeGpuMachine() {
  for (const char* name : {"bin", "driver"}) {
    std::filesystem::create_directory(folder_.path() + "/" + name);
  }
  InstallPackages("deps", {});
  folder_.Write("driver/libcuda.so.1", "no library");  // hides that of a machine with a GPU
  WriteProgram("nvidia-smi", kNvidiaSmi);
  WriteProgram("nvcc", kNvcc);
  WriteProgram("c++", kCompiler);
  WriteProgram("ninja", "");
  WriteProgram("cmake", kCmake);
  WriteProgram("a-foretrain", kForetrain);
  WriteProgram("a-kernels_gpu_tests", kTests);
}

void FakeGpuMachine::WriteProgram(const std::string& name, const std::string& script) const {
  const std::string path = folder_.Write("bin/" + name, "#!/bin/sh\n" + script);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

void FakeGpuMachine::AddSanitizer() const { WriteProgram("compute-sanitizer", kSanitizer); }

void FakeGpuMachine::InstallPackages(const std::string& folder,
                                     const std::map<std::string, std::string>& changes) const {
  std::map<std::string, std::string> versions = {
      {"SQLite3", "3.40.1"}, {"nlohmann_json", "3.11.2"}, {"CLI11", "2.1.2"},
      {"fmt", "9.1.0"},      {"tl-expected", "1.0.0"},    {"GTest", "1.12.1"}};
  for (const auto& [name, version] : changes) versions[name] = version;
  const std::string usr = folder + "/usr/";
  std::filesystem::create_directories(folder_.path() + "/" + usr + "include");
  for (const auto& [name, version] : versions) {
    if (version.empty()) continue;
    if (name == "SQLite3") {
      folder_.Write(usr + "include/sqlite3.h",
                    "#define SQLITE_VERSION        \"" + version + "\"\n");
      continue;
    }
    const std::filesystem::path at = std::filesystem::path(usr) / "lib/cmake" / name;
    std::filesystem::create_directories(folder_.path() / at);
    folder_.Write((at / (name + "ConfigVersion.cmake")).string(),
                  "set(PACKAGE_VERSION \"" + version + "\")\n");
  }
}

// Only these programs and the system's are found, and no real GPU.
std::string FakeGpuMachine::Command(const std::string& arguments,
                                    const std::string& settings) const {
  const std::string& at = folder_.path();
  return "env -u CXX -u CUDAHOSTCXX -u CMAKE_PREFIX_PATH -u CUDACXX -u CUDA_HOME -u CUDA_PATH -u "
         "NCCL_ROOT CUDA_VISIBLE_DEVICES= MACHINE='" +
         at + "' PATH='" + at + "/bin':\"$(dirname \"$(command -v python3)\")\":/usr/bin:/bin " +
         "LD_LIBRARY_PATH='" + at + "/driver' " + settings + " python3 " + arguments + " --out '" +
         out() + "' --build '" + at + "/build' --deps '" + at + "/deps'";
}

ProgramEnd FakeGpuMachine::Run(const std::string& arguments, const std::string& settings) const {
  return RunCommand(folder_.path(),
                    Command("'" + SourcePath("tools/gpu-check") + "' " + arguments, settings));
}

ProgramEnd FakeGpuMachine::RunWith(const std::string& change, const std::string& arguments,
                                   const std::string& settings) const {
  folder_.Write("changed.py",
                "import runpy, sys\n"
                "sys.dont_write_bytecode = True\n"
                "sys.path.insert(0, '" +
                    SourcePath("tools") +
                    "')\n"
                    "from gpu_check import limits, preflight\n" +
                    change + "\nrunpy.run_path('" + SourcePath("tools/gpu-check") +
                    "', run_name='__main__')\n");
  return RunCommand(folder_.path(), Command("changed.py " + arguments, settings));
}

nlohmann::json FakeGpuMachine::State() const {
  return nlohmann::json::parse(folder_.Read("out/gpu-check.json"));
}

std::string FakeGpuMachine::StatusOf(const std::string& part) const {
  const nlohmann::json parts = State().at("parts");
  return parts.contains(part) ? parts.at(part).at("status").get<std::string>() : "";
}

}  // namespace foretrain
