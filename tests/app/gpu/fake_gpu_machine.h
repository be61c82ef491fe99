// A machine with a GPU from the point of view of tools/gpu-check: programs with the right names
// that finish at once, or fail as a test requests.
#pragma once

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
  //   LOSSES=LIST    of the steps on the GPU                 GPU=NAME
  //   GRAPHS=LIST    with CUDA graphs                        LAUNCHES=N  of graphs
  //   SPANS=N        in the store of the benchmark           NOISE=N  MiB that the build prints
  //   TESTS=FILE     what kernels_gpu_tests prints; its exit status is the last line
  ProgramEnd Run(const std::string& arguments, const std::string& settings = "") const;
  // The same with constants of the script changed first: a line of Python over the module `g`.
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

 private:
  void WriteProgram(const std::string& name, const std::string& script) const;

  TemporaryFolder folder_;
};

}  // namespace foretrain
