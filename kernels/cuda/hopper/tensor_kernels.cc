#include "kernels/cuda/hopper/tensor_kernels.h"

#include <cstdio>

#include "kernels/cuda/device/queue.h"

namespace foretrain {

namespace {

// Machine code for sm_90a runs on compute capability 9.0 only.
FtStatus Refuse(CudaQueue& q, const char* why) {
  std::snprintf(q.error, sizeof q.error,
                "cuda device %d of compute capability %d.%d: no kernels with wgmma: %s", q.device,
                q.capability / 10, q.capability % 10, why);
  return FT_UNSUPPORTED;
}

}  // namespace

FtStatus UseTensorKernels(FtQueue* queue, FtKernel kernel, FtTensorKernels kernels) {
  constexpr int kCapability = 90;
  CudaQueue& q = QueueOf(queue);
  if (kernels == FT_TENSOR_WGMMA) {
    if (q.capability != kCapability) return Refuse(q, "they need 9.0");
    if (kernel != FT_KERNEL_GROUPED_GEMM) return Refuse(q, "the entry has none");
  }
  q.warpgroups[kernel] = kernels == FT_TENSOR_WGMMA;
  return FT_OK;
}

}  // namespace foretrain
