#include "kernels/cuda/own/attention/lse_rows.cuh"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

// One value per thread, in the order of `rows`.
__global__ void LseRowsKernel(LseRows lse, bool packs) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i >= lse.samples * lse.sequence * lse.heads) return;
  const std::int64_t head = i % lse.heads, row = i / lse.heads;
  const std::int64_t sample = row / lse.sequence, position = row % lse.sequence;
  float& at =
      lse.rows[(lse.first_sample * lse.sequence + row) * lse.all_heads + lse.first_head + head];
  float& packed = lse.packed[(sample * lse.heads + head) * lse.sequence + position];
  if (packs) {
    packed = at;
  } else {
    at = packed;
  }
}

FtStatus Copy(FtQueue* queue, const LseRows& lse, bool packs) {
  CudaCheck check(queue, FT_KERNEL_ATTENTION_FORWARD);
  FT_LAUNCH(LseRowsKernel, dim3(Blocks(lse.samples * lse.sequence * lse.heads, kBlock)),
            dim3(kBlock), 0, StreamOf(queue), lse, packs);
  return check.Launched();
}

}  // namespace

FtStatus PackLse(FtQueue* queue, const LseRows& lse) { return Copy(queue, lse, true); }
FtStatus UnpackLse(FtQueue* queue, const LseRows& lse) { return Copy(queue, lse, false); }

}  // namespace foretrain
