// The part preflight of tools/gpu-check on stand-ins for machines that people rent: which sentences
// it writes, and that nothing is built where there are any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/gpu/fake_gpu_machine.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

// The sentences of preflight, without the script's name. The machine's folder is written as HERE.
std::vector<std::string> SentencesOf(const FakeGpuMachine& machine, const ProgramEnd& end) {
  const std::string start = "tools/gpu-check: ";
  const std::string& folder = machine.folder().path();
  std::vector<std::string> sentences;
  std::istringstream lines(end.errors);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(start)) continue;
    line.erase(0, start.size());
    for (auto at = line.find(folder); at != std::string::npos; at = line.find(folder)) {
      line.replace(at, folder.size(), "HERE");
    }
    sentences.push_back(line);
  }
  return sentences;
}

struct Machine {
  const char* name;
  const char* settings;
  std::map<std::string, std::string> packages;  // that differ from Debian 12's
  const char* change;                           // a line of Python
  std::vector<std::string> sentences;
};

// Versions of Ubuntu 22.04: packages.ubuntu.com, jammy. Compute capabilities: NVIDIA's table of
// CUDA GPUs. CUDA 12.4 compiles for 5.0 to 9.0.
const Machine kMachines[] = {
    {"Ubuntu 22.04 with an H100",
     "GPU='NVIDIA H100 80GB HBM3' MEMORY=81559 CMAKE=3.22.1 GXX=11.4.0 TOOLKIT=12.8 DRIVER=570.86",
     {{"SQLite3", "3.37.2"}, {"nlohmann_json", "3.10.5"}, {"fmt", "8.1.1"}, {"GTest", "1.11.0"}},
     "",
     {"cmake is 3.22.1, and the build needs 3.25 or later: pip install cmake",
      "c++ is g++ 11.4.0, and the build needs g++ 12 or clang 14: apt-get install g++-12, then run "
      "with CXX=g++-12",
      "packages of the build are too old: SQLite3 3.37.2 (needed: 3.40), nlohmann_json 3.10.5 "
      "(needed: 3.11), fmt 8.1.1 (needed: 9), GTest 1.11.0 (needed: 1.12): run tools/fetch-deps on "
      "a Debian 12 machine and copy .deps here"}},
    {"a container of CUDA 13.0 on a host with driver 550",
     "GPU='NVIDIA A100-SXM4-80GB' CAPABILITY=8.0 TOOLKIT=13.0 DRIVER=550.54.15",
     {},
     "",
     {"driver 550.54.15 is too old for CUDA 13.0, which needs 580 or later: update the driver, or "
      "install a CUDA 12 toolkit of 12.2 or later and set CUDA_HOME to it"}},
    {"an RTX 4090",
     "GPU='NVIDIA GeForce RTX 4090' CAPABILITY=8.9 MEMORY=24564 TOOLKIT=12.8 DRIVER=570.86",
     {},
     "",
     {}},
    {"a B200 with CUDA 12.1",
     "GPU='NVIDIA B200' CAPABILITY=10.0 MEMORY=183359 TOOLKIT=12.1 CODES='sm_50 sm_80 sm_90' "
     "DRIVER=570.86",
     {},
     "",
     {"nvcc is of CUDA 12.1, and the plugin needs 12.2 or later: install a later toolkit and set "
      "CUDA_HOME to it",
      "nvcc is of CUDA 12.1, which cannot compile for compute capability 10.0 (NVIDIA B200): "
      "install CUDA 12.8 or later and set CUDA_HOME to it"}},
    {"a full disk and no GoogleTest",
     "",
     {{"GTest", ""}},
     "preflight.shutil.disk_usage = lambda _: types.SimpleNamespace(free=1 << 30)",
     {"packages of the build were not found: GTest 1.12: apt-get install libgtest-dev "
      "libgmock-dev, or run tools/fetch-deps where there is a network and copy .deps here",
      "HERE/build has 1.0 GiB free, and the build needs 2 GiB: free some, or name another folder "
      "with --build"}},
    {"an old Python, and a driver of CUDA 11",
     "TOOLKIT=12.9 DRIVER=470.82",
     {},
     "sys.version_info = (3, 8, 10)",
     {"Python 3.8.10 runs this script, which needs 3.9 or later: start it with a later one, e.g. "
      "python3.11 tools/gpu-check",
      "driver 470.82 is too old for CUDA 12.9, which needs 525 or later: update the driver"}},
};

// Packages are those of the machine alone, not of the one that runs the test.
constexpr const char* kOwnPackages =
    "import os, pathlib, types\n"
    "preflight.prefixes = lambda _: [pathlib.Path(os.environ['MACHINE']) / 'system' / 'usr']\n";

TEST(GpuCheckPreflight, TellsAllProblemsOfAMachineAtOnceAndBuildsNothing) {
  for (const Machine& of : kMachines) {
    SCOPED_TRACE(of.name);
    const FakeGpuMachine machine;
    machine.InstallPackages("system", of.packages);
    const ProgramEnd end =
        machine.RunWith(std::string(kOwnPackages) + of.change, "--parts build", of.settings);
    const bool good = of.sentences.empty();
    EXPECT_EQ(end.code, good ? 0 : 3) << end.output << end.errors;
    EXPECT_THAT(SentencesOf(machine, end), ElementsAreArray(of.sentences));
    EXPECT_EQ(machine.StatusOf("preflight"), good ? "passed" : "failed");
    EXPECT_EQ(machine.StatusOf("build"), good ? "passed" : "");
    EXPECT_EQ(machine.Calls().empty(), !good);
    EXPECT_THAT(machine.Report(),
                HasSubstr(good ? "| preflight | passed |" : "| preflight | failed |"));
    EXPECT_THAT(end.output, HasSubstr(good ? "preflight  passed" : "preflight  failed"));
  }
}

TEST(GpuCheckPreflight, ReadsInTheToolkitWhatItLacksAndWhichCompilersItTakes) {
  const FakeGpuMachine machine;
  std::filesystem::create_directories(machine.folder().path() + "/include/crt");
  machine.folder().Write("include/cuda_runtime.h", "");
  machine.folder().Write("include/crt/host_config.h",
                         "#if __GNUC__ > 13\n#error\n#endif\n"
                         "#if (__clang_major__ >= 18) || (__clang_major__ < 3)\n");
  const ProgramEnd end = machine.Run("--parts preflight", "GXX=14.2.0 TOOLKIT=12.8");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(SentencesOf(machine, end),
              testing::ElementsAre(
                  "c++ is g++ 14.2.0, and nvcc takes g++ up to 13: apt-get install g++-13, then "
                  "run with CXX=g++-13",
                  "the CUDA toolkit in HERE lacks cublasLt.h, nvtx3/nvToolsExt.h: apt-get install "
                  "libcublas-dev-12-8 cuda-nvtx-12-8, or use the container image whose tag has "
                  "-devel"));
}

TEST(GpuCheckPreflight, TakesGoogleTestsSourcesForItsLibraries) {
  const FakeGpuMachine machine;
  machine.InstallPackages("system", {{"GTest", ""}});
  const std::string sources = machine.folder().path() + "/system/usr/src/googletest";
  std::filesystem::create_directories(sources);
  for (const auto& [version, code] : {std::pair("1.12.1", 0), std::pair("1.11.0", 3)}) {
    machine.folder().Write("system/usr/src/googletest/CMakeLists.txt",
                           std::string("set(GOOGLETEST_VERSION ") + version + ")\n");
    EXPECT_EQ(machine.RunWith(kOwnPackages, "--parts preflight").code, code) << version;
  }
}

TEST(GpuCheckPreflight, GoesOnAnywayIfAskedAndKeepsTheProblems) {
  const FakeGpuMachine machine;
  const ProgramEnd end = machine.Run("--parts build,devices --anyway", "CMAKE=3.22.1");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.errors, HasSubstr("cmake is 3.22.1"));
  EXPECT_EQ(machine.StatusOf("preflight"), "failed");
  EXPECT_EQ(machine.StatusOf("devices"), "passed");
}

TEST(GpuCheckPreflight, AsksForNoCompilerWhereNothingIsBuilt) {
  const FakeGpuMachine machine;
  ASSERT_EQ(machine.Run("--parts build").code, 0);
  for (const char* parts : {"devices", "build,devices"}) {
    const ProgramEnd end = machine.Run(std::string("--parts ") + parts, "GXX=9.4.0");
    EXPECT_EQ(end.code, 0) << end.errors;
    EXPECT_THAT(SentencesOf(machine, end), IsEmpty());
  }
  EXPECT_EQ(machine.Run("--parts preflight", "GXX=9.4.0").code, 3);
}

// The whole run on a GPU that is too small for a row.
TEST(GpuCheck, ARowThatDoesNotFitTheGpuIsLeftOut) {
  const FakeGpuMachine machine;
  const std::string small =
      "GPU='NVIDIA GeForce RTX 4090' CAPABILITY=8.9 MEMORY=24564 TOOLKIT=12.8 DRIVER=570.86 ";
  EXPECT_EQ(machine.Run("", small + "UNFIT=other").code, 0);
  EXPECT_EQ(machine.StatusOf("bench"), "passed");
  EXPECT_THAT(
      machine.Report(),
      AllOf(HasSubstr("other is left out: 1 ranks on one device need 60.1 GiB"),
            HasSubstr("| gpt2-124m-b4-bf16 | 100.000 |"), testing::Not(HasSubstr("| other |"))));
  EXPECT_EQ(machine.Run("--rows other", small + "UNFIT=other").code, 0);
  EXPECT_EQ(machine.StatusOf("bench"), "left out");
}

}  // namespace
}  // namespace foretrain
