// Experts' GEMMs by bulk copies and warpgroup products, for compute capability 9.0.
// kernels/cuda/tensor/tensor_gemm.cuh computes all other calls.
#pragma once

#include "base/device_api.h"
#include "kernels/cuda/device/check.h"

namespace foretrain {

// True if the queue was told to use these kernels and `g`, which TakesTensorCores, fits them: c
// aligned to 16 bytes and at least one row.
bool TakesWarpgroups(FtQueue* queue, const FtGroupedGemm& g);

// Enqueues the product; out and in must be above 0.
FtStatus WarpgroupGroupedGemm(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g);

}  // namespace foretrain
