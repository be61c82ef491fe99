// Assembles the CUDA device's kernel entries.
#include <cstdint>
#include <cstdio>

#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/device/queue.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// Stands in for an entry that has no kernel.
template <class Arguments>
FtStatus NoKernel(FtQueue* queue, const Arguments*) {
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                "cuda: there is no kernel for this entry");
  return FT_UNSUPPORTED;
}

// True if the kernel accepts bf16 and fp16. The others work on ids and flags only, or amend fp32
// values.
bool TakesShortTensors(FtKernel kernel) {
  switch (kernel) {
    case FT_KERNEL_VOCAB_LOSS:
    case FT_KERNEL_ADAMW_AMEND:
    case FT_KERNEL_SGD_AMEND:
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

// Built once; the table of the plugin and that of the host shim copy its entries.
FtDeviceApi MakeKernels() {
  FtDeviceApi api{};
  SetCudaNormEntries(api);
  SetCudaElementwiseEntries(api);
  SetCudaDropoutEntries(api);
  SetCudaEmbeddingEntries(api);
  SetCudaHeadEntries(api);
  SetCudaLossEntries(api);
  SetCudaSumEntries(api);
  SetCudaUpdateEntries(api);
  SetCudaAdafactorEntries(api);
  SetCudaExchangeEntries(api);
  SetCudaRouterEntries(api);
  SetCudaExpertEntries(api);
  SetCudaGateEntries(api);
  SetCudaGemmEntries(api);
  SetCudaQuantizeTensorEntry(api);
  SetCudaAttentionForwardEntries(api);
  SetCudaAttentionBackwardEntries(api);
  SetCudaStandardAttentionEntries(api);
// Entries without a kernel refuse with a message instead of crashing.
#define FT_FILL_GAP(NAME, entry, Arguments) \
  if (api.entry == nullptr) api.entry = &NoKernel<Arguments>;
  FT_KERNEL_ENTRIES(FT_FILL_GAP)
#undef FT_FILL_GAP
  return api;
}

const FtDeviceApi& Kernels() {
  static const FtDeviceApi api = MakeKernels();
  return api;
}

// Needs no queue, so that a program can be checked before any queue exists.
std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  if (kernel < FT_KERNEL_GEMM || kernel >= FT_KERNEL_COUNT) return 0;
  const FtDeviceApi& api = Kernels();
#define FT_THERE(NAME, entry, Arguments) api.entry != &NoKernel<Arguments>,
  const bool there[] = {FT_KERNEL_ENTRIES(FT_THERE)};
#undef FT_THERE
  static_assert(sizeof there == FT_KERNEL_COUNT);
  if (!there[kernel]) return 0;
  const bool is_short = dtype == FT_BF16 || dtype == FT_F16;
  return (is_short ? TakesShortTensors(kernel) : TakesFormat(kernel, dtype)) ? 1 : 0;
}

}  // namespace

void SetCudaKernels(FtDeviceApi& api) {
  const FtDeviceApi& kernels = Kernels();
  api.supports = &Supports;
#define FT_COPY(NAME, entry, Arguments) api.entry = kernels.entry;
  FT_KERNEL_ENTRIES(FT_COPY)
#undef FT_COPY
}

}  // namespace foretrain
