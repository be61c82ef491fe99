// State of one thread on the CPU device: its kernels, their scratch memory and the last error.
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
  kOneDnn,   // oneDNN's sgemm; only if the build has it
  kBuiltIn,  // VectorKernels::gemm
};

// True if this build has `backend`.
constexpr bool HasGemmBackend(GemmBackend backend) {
  return backend == GemmBackend::kBuiltIn || FORETRAIN_HAVE_ONEDNN != 0;
}

struct FreeDeleter {
  void operator()(void* pointer) const { std::free(pointer); }
};

// Reusable buffer for the fp32 copy of a tensor.
struct WideBuffer {
  std::unique_ptr<float, FreeDeleter> at;
  std::int64_t floats = 0;
};

// Makes a queue that runs the given kernels. The table's queue_create picks the fastest tables, and
// oneDNN if the build has it; tests and benchmarks choose others.
//
//   kernels  one of FindUsableVectorKernels(); must outlive the queue (the tables are static)
//   gemm     a backend that the build has
//
// Returns null if the scratch memory (kScratchFloats, under 6 MiB) cannot be allocated. Release the
// queue with queue_destroy.
FtQueue* MakeCpuQueue(const VectorKernels& kernels, GemmBackend gemm);

}  // namespace foretrain

struct FtQueue {
  const foretrain::VectorKernels* kernels = nullptr;
  foretrain::GemmBackend gemm = foretrain::GemmBackend::kBuiltIn;
  std::unique_ptr<float, foretrain::FreeDeleter> scratch;
  // For entries on 16-bit tensors; each grows to the longest so far.
  std::vector<foretrain::WideBuffer> wide;
  char error[512] = "";
};
