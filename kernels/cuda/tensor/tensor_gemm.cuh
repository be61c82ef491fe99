// Products of 16-bit matrices on tensor cores: conditions and launches. gemm.cu has the entries and
// the kernels for the rest.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/cuda/device/check.h"

namespace foretrain {

// True if rows of `cols` 16-bit values, `stride` apart, consist of whole 16-byte words.
constexpr bool AreOctets(std::int64_t cols, std::int64_t stride) {
  return cols % 8 == 0 && stride % 8 == 0;
}

// True if `g`, already checked, can run on tensor cores. It needs 16-bit values, compute capability
// 8.0 or later, and stored rows of whole 16-byte words in both operands.
bool TakesTensorCores(FtQueue* queue, const FtGemm& g);
bool TakesTensorCores(FtQueue* queue, const FtGroupedGemm& g);

// Enqueues the product; m, n, out and in must be above 0.
FtStatus TensorGemm(FtQueue* queue, CudaCheck& check, const FtGemm& g);
FtStatus TensorGroupedGemm(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g);

}  // namespace foretrain
