// Sums over a whole tensor in fp64 and two passes: squared norms, and counts of infinities and NaN.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

// Depends on the size alone, so results do not depend on the device.
constexpr unsigned kSumBlocks = 1024;

struct Square {
  FT_DEVICE double operator()(float x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};
struct NotFinite {
  FT_DEVICE double operator()(float x) const { return IsFinite(x) ? 0.0 : 1.0; }
};

// First pass: a grid-stride loop leaves one partial sum per block. Which elements a thread adds
// depends on the size alone.
template <class Term>
__global__ void SumKernel(const void* x, FtDtype dtype, std::int64_t elements, double* partials) {
  const std::int64_t step = std::int64_t{gridDim.x} * kBlock * kOctet;
  double sum = 0.0;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet; at < elements;
       at += step) {
    float v[kOctet];
    LoadAnyOctet(x, dtype, at, elements - at, v);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum += Term{}(v[i]);
  }
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

// Second pass: one block adds the partials in order, without atomics.
__global__ void JoinSumsKernel(const double* partials, int count, int accumulate, float* out) {
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kBlock) sum += partials[i];
  const double total = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x != 0) return;
  *out = static_cast<float>(accumulate != 0 ? static_cast<double>(*out) + total : total);
}

template <class Term, class Arguments>
FtStatus SumOver(FtQueue* queue, FtKernel kernel, const Arguments* g) {
  CudaCheck check(queue, kernel, *g);
  auto* const partials =
      reinterpret_cast<double*>(check.Workspace(kSumBlocks * std::int64_t{sizeof(double)}));
  if (!check.ok()) return check.status();
  const unsigned wanted = Blocks(g->elements, kBlock * kOctet);
  const unsigned blocks = wanted < kSumBlocks ? wanted : kSumBlocks;
  if (blocks > 0) {
    FT_LAUNCH(SumKernel<Term>, dim3(blocks), dim3(kBlock), 0, StreamOf(queue), g->x, g->dtype,
              g->elements, partials);
  }
  FT_LAUNCH(JoinSumsKernel, dim3(1), dim3(kBlock), 0, StreamOf(queue), partials,
            static_cast<int>(blocks), g->accumulate, g->out);
  return check.Launched();
}

FtStatus SquaredNorm(FtQueue* queue, const FtSquaredNorm* g) {
  return SumOver<Square>(queue, FT_KERNEL_SQUARED_NORM, g);
}
FtStatus CountNotFinite(FtQueue* queue, const FtCountNotFinite* g) {
  return SumOver<NotFinite>(queue, FT_KERNEL_COUNT_NOT_FINITE, g);
}

}  // namespace

void SetCudaSumEntries(FtDeviceApi& api) {
  api.squared_norm = &SquaredNorm;
  api.count_not_finite = &CountNotFinite;
}

}  // namespace foretrain
