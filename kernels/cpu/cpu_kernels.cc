#include "kernels/cpu/cpu_kernels.h"

#include <cstdint>

#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// The loss and amendments of updates are fp32 whatever else is shorter; norms of heads take nothing
// shorter yet.
bool TakesShortTensors(FtKernel kernel) {
  switch (kernel) {
    case FT_KERNEL_CROSS_ENTROPY_FORWARD:
    case FT_KERNEL_CROSS_ENTROPY_BACKWARD:
    case FT_KERNEL_VOCAB_MAX:
    case FT_KERNEL_VOCAB_SUMS:
    case FT_KERNEL_VOCAB_LOSS:
    case FT_KERNEL_ADAMW_AMEND:
    case FT_KERNEL_SGD_AMEND:
    case FT_KERNEL_HEAD_NORM_FORWARD:
    case FT_KERNEL_HEAD_NORM_BACKWARD_INPUT:
    case FT_KERNEL_HEAD_NORM_BACKWARD_WEIGHT:
    case FT_KERNEL_SOFTCAP:
    case FT_KERNEL_SHIFT_TARGETS:
    case FT_KERNEL_COUNT_SKIPPED:
    case FT_KERNEL_COUNT_CHOICES:
    case FT_KERNEL_BALANCE_BIAS:
    case FT_KERNEL_SCALE_LOSS:
      return false;
    default:
      return true;
  }
}

bool TakesMasks(FtKernel kernel) {
  return kernel >= FT_KERNEL_DROPOUT && kernel <= FT_KERNEL_STANDARD_ATTENTION_BACKWARD;
}

// Products round what they read; attention reads all of fp32, which takes nothing from its results.
bool TakesTf32(FtKernel kernel) {
  switch (kernel) {
    case FT_KERNEL_GEMM:
    case FT_KERNEL_GROUPED_GEMM:
    case FT_KERNEL_ATTENTION_FORWARD:
    case FT_KERNEL_ATTENTION_BACKWARD:
    case FT_KERNEL_ATTENTION_PART_FORWARD:
    case FT_KERNEL_ATTENTION_PART_BACKWARD:
    case FT_KERNEL_STANDARD_ATTENTION_FORWARD:
    case FT_KERNEL_STANDARD_ATTENTION_BACKWARD:
      return true;
    default:
      return false;
  }
}

std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  if (kernel < FT_KERNEL_GEMM || kernel >= FT_KERNEL_COUNT) return 0;
  if (dtype == FT_NF4) {
    return kernel == FT_KERNEL_QUANTIZE || kernel == FT_KERNEL_DEQUANTIZE ? 1 : 0;
  }
  if (dtype == FT_U8) return TakesMasks(kernel) ? 1 : 0;
  if (dtype == FT_TF32) return TakesTf32(kernel) ? 1 : 0;
  if (dtype == FT_FP8 || dtype == FT_E5M2) {
    return kernel == FT_KERNEL_GEMM || kernel == FT_KERNEL_QUANTIZE_TENSOR ? 1 : 0;
  }
  if (dtype == FT_BF16 || dtype == FT_F16) return TakesShortTensors(kernel) ? 1 : 0;
  return dtype == FT_F32 ? 1 : 0;
}

}  // namespace

void SetCpuKernels(FtDeviceApi& api) {
  api.supports = &Supports;
  SetLinearEntries(api);
  SetEmbeddingEntries(api);
  SetNormEntries(api);
  SetHeadNormEntries(api);
  SetLatentEntries(api);
  SetAttentionEntries(api);
  SetAttentionPartEntries(api);
  SetStandardAttentionEntries(api);
  SetDropoutEntries(api);
  SetActivationEntries(api);
  SetCrossEntropyEntries(api);
  SetRouterEntries(api);
  SetMoeEntries(api);
  SetGateEntries(api);
  SetUpdateEntries(api);
  SetQuantizeTensorEntry(api);
  SetShortTensorEntries(api);
}

}  // namespace foretrain
