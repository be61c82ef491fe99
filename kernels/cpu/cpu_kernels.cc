#include "kernels/cpu/cpu_kernels.h"

#include <cstdint>

#include "kernels/cpu/entries/entry.h"
#include "kernels/cpu/entries/families.h"
#include "kernels/formats.h"

namespace foretrain {

// Sums of losses and the amendments of updates are fp32 only, whatever the rest of the model uses.
bool TakesShortTensors(FtKernel kernel) {
  switch (kernel) {
    case FT_KERNEL_VOCAB_LOSS:
    case FT_KERNEL_ADAMW_AMEND:
    case FT_KERNEL_SGD_AMEND:
    case FT_KERNEL_HEAD_NORM_FORWARD:
    case FT_KERNEL_HEAD_NORM_BACKWARD_INPUT:
    case FT_KERNEL_HEAD_NORM_BACKWARD_WEIGHT:
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

namespace {

// An unknown kernel is unsupported, so that callers may probe with any number.
std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  if (kernel < FT_KERNEL_GEMM || kernel >= FT_KERNEL_COUNT) return 0;
  const bool is_short = dtype == FT_BF16 || dtype == FT_F16;
  return (is_short ? TakesShortTensors(kernel) : TakesFormat(kernel, dtype)) ? 1 : 0;
}

// Sets each entry that has a kernel of its name in VectorKernels.
template <class Kernels>
void SetVectorEntries(FtDeviceApi& api) {
#define FT_SET(NAME, entry, Arguments)              \
  if constexpr (requires { &Kernels::entry; }) {    \
    Set<&FtDeviceApi::entry, &Kernels::entry>(api); \
  }
  FT_KERNEL_ENTRIES(FT_SET)
#undef FT_SET
}

}  // namespace

// Families replace entries whose arguments need more than the vector kernel.
void SetCpuKernels(FtDeviceApi& api) {
  api.supports = &Supports;
  SetVectorEntries<VectorKernels>(api);
  SetLinearEntries(api);
  SetEmbeddingEntries(api);
  SetLatentEntries(api);
  SetRelativeBiasEntries(api);
  SetStandardAttentionEntries(api);
  SetDropoutEntries(api);
  SetCrossEntropyEntries(api);
  SetRouterEntries(api);
  SetMoeEntries(api);
  SetGateEntries(api);
  SetUpdateEntries(api);
  SetQuantizeTensorEntry(api);
  SetShortTensorEntries(api);
}

}  // namespace foretrain
