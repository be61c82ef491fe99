// One thread's state on the CPU device: which kernels it runs, their scratch memory, its last
// error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/device_api.h"
#include "kernels/cpu/vector_kernels.h"

namespace foretrain {

enum class GemmBackend {
  kOneDnn,   // oneDNN's sgemm; only in builds that have it
  kBuiltIn,  // VectorKernels::gemm
};

// Whether this build has `backend`.
constexpr bool HasGemmBackend(GemmBackend backend) {
  return backend == GemmBackend::kBuiltIn || FORETRAIN_HAVE_ONEDNN != 0;
}

struct FreeDeleter {
  void operator()(void* pointer) const { std::free(pointer); }
};

// Room for fp32 copies of a tensor.
struct WideBuffer {
  std::unique_ptr<float, FreeDeleter> at;
  std::int64_t floats = 0;
};

// Makes a queue that runs the given kernels; what queue_create of the table makes is the fastest of
// them with oneDNN where the build has it. Tests and benchmarks name others.
//
//   kernels  one of FindUsableVectorKernels(); must outlive the queue (the tables are static)
//   gemm     a backend that the build has
//
// Returns null when the scratch memory (kScratchFloats, under 6 MiB) cannot be had; release it with
// queue_destroy.
FtQueue* MakeCpuQueue(const VectorKernels& kernels, GemmBackend gemm);

}  // namespace foretrain

struct FtQueue {
  const foretrain::VectorKernels* kernels = nullptr;
  foretrain::GemmBackend gemm = foretrain::GemmBackend::kBuiltIn;
  std::unique_ptr<float, foretrain::FreeDeleter> scratch;
  std::vector<foretrain::WideBuffer> wide;  // of entries on 16-bit tensors, as long as the longest
  char error[512] = "";
};
