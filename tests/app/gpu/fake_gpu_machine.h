// A machine with a GPU from the point of view of tools/gpu-check: programs with the right names
// that finish at once, or fail as a test requests.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {

class FakeGpuMachine {
 public:
  FakeGpuMachine();

  // Runs tools/gpu-check with `arguments`, its results in `out()` and its build in a folder next to
  // it. `settings` are NAME=value words of the shell that the programs read:
  //
  //   FAIL=PART      what the part runs fails                HANG=PART  it does not end by itself
  //   LOSSES=LIST    of the steps on the GPU                 SPANS=N    in the benchmark's store
  //   GRAPHS=LIST    with CUDA graphs                        LAUNCHES=N of graphs
  //   UNFIT=LIST     rows of the benchmark that lack memory  NOISE=N    MiB that the build prints
  //   TESTS=FILE     what kernels_gpu_tests prints; its exit status is the last line
  //   GPU=NAME, DRIVER, CAPABILITY, MEMORY=MIB               as nvidia-smi prints them
  //   TOOLKIT, CODES, CMAKE, GXX    versions of nvcc, cmake and c++; the GPUs that nvcc knows
  ProgramEnd Run(const std::string& arguments, const std::string& settings = "") const;
  // The same after a line of Python that changes the script's modules `limits` and `preflight`.
  ProgramEnd RunWith(const std::string& change, const std::string& arguments,
                     const std::string& settings = "") const;

  // The command line of a run, for tests that put it in the background.
  std::string Command(const std::string& arguments, const std::string& settings = "") const;

  const TemporaryFolder& folder() const { return folder_; }
  std::string out() const { return folder_.path() + "/out"; }
  // gpu-check.json, and the status of one part in it; "" if it has none.
  nlohmann::json State() const;
  std::string StatusOf(const std::string& part) const;
  std::string Report() const { return folder_.Read("out/gpu-report.md"); }
  // The commands that were run so far, one per line.
  std::string Calls() const { return folder_.Read("calls"); }

  void AddSanitizer() const;

  // Writes FOLDER/usr with the packages of Debian 12 that the build needs; `changes` names other
  // versions, "" for a package that is not installed. The constructor writes the folder `deps`,
  // which stands for that of tools/fetch-deps.
  void InstallPackages(const std::string& folder,
                       const std::map<std::string, std::string>& changes) const;

 private:
  void WriteProgram(const std::string& name, const std::string& script) const;

  TemporaryFolder folder_;
};

}  // namespace foretrain
