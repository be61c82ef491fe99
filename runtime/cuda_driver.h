// What the NVIDIA driver says of its GPUs, asked without CUDA's headers or its runtime library.
// Leaves out how GPUs are joined: profiler/nvml.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct GpuFacts {
  std::string name;  // "NVIDIA H200"
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  int clock_mhz = 0;         // highest of the multiprocessors
  int memory_clock_mhz = 0;  // highest
  int memory_bus_bits = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
};

struct CudaDriver {
  int version = 0;             // of CUDA, the newest that the driver takes: 13000 is 13.0
  std::vector<GpuFacts> gpus;  // in CUDA's order
};

// Asks the driver, which is started for it: tenths of a second the first time. Errors:
// kUnsupported, there is no driver or it does not start, with its own words.
Result<CudaDriver> AskCudaDriver(const std::string& file = "libcuda.so.1");

// Whether each of the machine's first `gpus` GPUs can read the memory of each other. False, too,
// where the driver does not start or does not say. Safe from any thread.
bool GpusReadEachOther(int gpus, const std::string& file = "libcuda.so.1");

// "13.0" of 13000; "none" of 0.
std::string CudaVersionText(int version);

}  // namespace foretrain
