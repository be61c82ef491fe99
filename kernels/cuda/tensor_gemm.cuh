// Products of 16-bit matrices on tensor cores: which they take, and their launches. gemm.cu has the
// entries and the kernels for the rest.
#pragma once

#include <cstdint>

#include "base/device_api.h"
#include "kernels/cuda/check.h"

namespace foretrain {

// Whether rows of `cols` numbers of 16 bits, `stride` apart, are whole words of 16 bytes.
constexpr bool AreOctets(std::int64_t cols, std::int64_t stride) {
  return cols % 8 == 0 && stride % 8 == 0;
}

// Whether `g`, checked, can run on tensor cores: numbers of 16 bits, compute capability 8.0 or
// later, and rows of both operands as they are stored in whole words of 16 bytes.
bool TakesTensorCores(FtQueue* queue, const FtGemm& g);
bool TakesTensorCores(FtQueue* queue, const FtGroupedGemm& g);

// Enqueues it; m, n, out and in are above 0.
FtStatus TensorGemm(FtQueue* queue, CudaCheck& check, const FtGemm& g);
FtStatus TensorGroupedGemm(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g);

}  // namespace foretrain
