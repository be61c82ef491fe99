#include "kernels/cpu/cpu_kernels.h"

#include <cstdint>

#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  return kernel >= FT_KERNEL_GEMM && kernel < FT_KERNEL_COUNT && dtype == FT_F32 ? 1 : 0;
}

}  // namespace

void SetCpuKernels(FtDeviceApi& api) {
  api.supports = &Supports;
  SetLinearEntries(api);
  SetEmbeddingEntries(api);
  SetNormEntries(api);
  SetHeadNormEntries(api);
  SetAttentionEntries(api);
  SetAttentionPartEntries(api);
  SetActivationEntries(api);
  SetCrossEntropyEntries(api);
  SetRouterEntries(api);
  SetMoeEntries(api);
  SetUpdateEntries(api);
}

}  // namespace foretrain
