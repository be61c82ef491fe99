// The CUDA device's kernel entries put together.
#include <cstdint>
#include <cstdio>

#include "kernels/cuda/entries.h"
#include "kernels/cuda/queue.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// What an entry that has no kernel answers.
template <class Arguments>
FtStatus NoKernel(FtQueue* queue, const Arguments*) {
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error,
                "cuda: there is no kernel for this entry");
  return FT_UNSUPPORTED;
}

template <class Arguments>
void FillGap(FtStatus (*&entry)(FtQueue*, const Arguments*)) {
  if (entry == nullptr) entry = &NoKernel<Arguments>;
}
template <class... Entries>
void FillGaps(Entries&... entries) {
  (FillGap(entries), ...);
}

template <class Arguments>
bool IsThere(FtStatus (*entry)(FtQueue*, const Arguments*)) {
  return entry != &NoKernel<Arguments>;
}

// Ids and flags alone, or amendments, whose numbers are fp32.
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

// In the order of FtKernel.
#define FT_ALL_ENTRIES(use)                                                                       \
  use(gemm), use(bias_grad), use(embedding_forward), use(embedding_backward), use(norm_forward),  \
      use(norm_backward_input), use(norm_backward_weight), use(rope), use(attention_forward),     \
      use(attention_backward), use(gelu_forward), use(gelu_backward), use(swiglu_forward),        \
      use(swiglu_backward), use(add), use(add_norm_forward), use(cross_entropy_forward),          \
      use(cross_entropy_backward), use(vocab_max), use(vocab_sums), use(vocab_loss), use(route),  \
      use(route_backward), use(expert_gather), use(expert_combine), use(expert_dots),             \
      use(grouped_gemm), use(squared_norm), use(adamw), use(sgd), use(adamw_amend),               \
      use(sgd_amend), use(count_not_finite), use(count_skipped), use(quantize), use(dequantize),  \
      use(sum_ranks), use(attention_part_forward), use(attention_part_backward), use(copy_rows),  \
      use(head_norm_forward), use(head_norm_backward_input), use(head_norm_backward_weight),      \
      use(softcap), use(latent_heads), use(sink_forward), use(sink_backward), use(shift_targets), \
      use(expert_bias), use(expert_bias_grad), use(dropout), use(dropout_backward),               \
      use(standard_attention_forward), use(standard_attention_backward), use(gate_forward),       \
      use(gate_backward), use(count_choices), use(balance_bias), use(scale_loss),                 \
      use(quantize_tensor)

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
  SetCudaExchangeEntries(api);
  SetCudaRouterEntries(api);
  SetCudaExpertEntries(api);
  SetCudaGateEntries(api);
  SetCudaGemmEntries(api);
  SetCudaQuantizeTensorEntry(api);
  SetCudaAttentionForwardEntries(api);
  SetCudaAttentionBackwardEntries(api);
  SetCudaStandardAttentionEntries(api);
#define FT_ENTRY(name) api.name
  FillGaps(FT_ALL_ENTRIES(FT_ENTRY));
#undef FT_ENTRY
  return api;
}

const FtDeviceApi& Kernels() {
  static const FtDeviceApi api = MakeKernels();
  return api;
}

std::int32_t Supports(FtKernel kernel, FtDtype dtype) {
  if (kernel < FT_KERNEL_GEMM || kernel >= FT_KERNEL_COUNT) return 0;
  const FtDeviceApi& api = Kernels();
#define FT_THERE(name) IsThere(api.name)
  const bool there[] = {FT_ALL_ENTRIES(FT_THERE)};
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
#define FT_COPY(name) (api.name = kernels.name)
  static_cast<void>((FT_ALL_ENTRIES(FT_COPY)));
#undef FT_COPY
}
#undef FT_ALL_ENTRIES

}  // namespace foretrain
