// Facts about GPUs from the NVIDIA driver, without CUDA's headers or runtime library. Links between
// GPUs: profiler/nvml.h.
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
  int clock_mhz = 0;         // maximum SM clock
  int memory_clock_mhz = 0;  // maximum
  int memory_bus_bits = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
};

struct CudaDriver {
  int version = 0;             // newest CUDA version that the driver supports: 13000 is 13.0
  std::vector<GpuFacts> gpus;  // in CUDA's order
};

// Starts and queries the driver: tenths of a second the first time. Errors: kUnsupported, no
// driver, or it does not start, with its own text.
Result<CudaDriver> AskCudaDriver(const std::string& file = "libcuda.so.1");

// True if each of the machine's first `gpus` GPUs can read the memory of each other. False also if
// the driver does not start or does not know. Safe from any thread.
bool GpusReadEachOther(int gpus, const std::string& file = "libcuda.so.1");

// "13.0" for 13000; "none" for 0.
std::string CudaVersionText(int version);

}  // namespace foretrain
