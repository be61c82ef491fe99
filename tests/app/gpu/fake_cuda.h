// Runs the built program over the tests' CUDA libraries (tests/plugins/cuda).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/app/run_binary.h"

namespace foretrain {

// False if the build has no CUDA.
bool HasFakeCuda();
inline constexpr const char* kWithoutFakeCuda =
    "this build has no plugin: it needs nvcc and python3 on x86-64; preset release runs this there";

// False if the plugin was built without CUPTI's headers.
bool HasFakeCupti();
inline constexpr const char* kWithoutFakeCupti =
    "this build has no cupti.h of a CUDA toolkit; preset release runs this where it is";

struct CudaRun {
  ProgramEnd end;
  // By the words of the runtime's report: complaints, and allocations, streams, events and graphs
  // that were left.
  std::map<std::string, std::int64_t> report;
};

// Path of one of the tests' CUDA libraries.
std::string FakeCudaLibrary(const std::string& name);

// `settings` as in tests/plugins/cuda/cudart/settings.h. `environment`: further variables, as a
// shell sets them.
CudaRun RunOnFakeCuda(const TemporaryFolder& folder, const std::string& settings,
                      const std::string& arguments, const std::string& environment = "");

// Writes a small model and a text into the folder; returns "train ..." for three steps of four
// micro-batches.
std::string SmallCudaTraining(const TemporaryFolder& folder);

}  // namespace foretrain
