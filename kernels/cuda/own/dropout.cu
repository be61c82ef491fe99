// Dropout of activations, with the bias before it and the residual after it.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/positions.cuh"
#include "kernels/cuda/own/random.cuh"

namespace foretrain {
namespace {

// A thread handles eight columns of a row, which is two Philox blocks of four words. Words depend
// only on seed and position, so any launch shape gives the same mask.
__global__ void DropoutKernel(FtDropout g, KeepRule rule, Runs runs) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t row = thread / octets, col = thread % octets * kOctet;
  if (row >= g.rows) return;
  const std::int64_t left = g.cols - col, at = row * g.cols + col;
  const std::int64_t token = g.first_row + row;
  const std::int64_t position = runs.PositionOf(token % g.sequence);
  float factor[kOctet];
  for (int half = 0; half < kOctet; half += 4) {
    float four[4];
    rule.Factors(token / g.sequence, 0, position, col + half, four);
#pragma unroll
    for (int i = 0; i < 4; ++i) factor[half + i] = four[i];
  }
  if (g.mask != nullptr) {
    for (int i = 0; i < kOctet && i < left; ++i) g.mask[at + i] = factor[i] > 0.0F ? 1 : 0;
  }
  if (g.x == nullptr) return;
  float x[kOctet], other[kOctet] = {};
  LoadAnyOctet(g.x, g.dtype, at, left, x);
  if (g.bias != nullptr) {
    LoadAnyOctet(g.bias, g.bias_dtype, col, left, other);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] += other[i], other[i] = 0.0F;
  }
  if (g.residual != nullptr) LoadAnyOctet(g.residual, g.dtype, at, left, other);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) x[i] = other[i] + factor[i] * x[i];
  StoreAnyOctet(g.out, g.dtype, at, left, x);
}

// Without x only the mask is written, which other kernels then read.
void Dropout(CudaCheck& check, const FtDropout& g) {
  const Runs runs = RunsOf(check, g.runs, g.run_count);
  if (!check.ok() || g.rows * g.cols == 0) return;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  FT_LAUNCH(DropoutKernel, dim3(Blocks(g.rows * octets, kBlock)), dim3(kBlock), 0, check.stream(),
            g, KeepRuleOf(g.random), runs);
}

// Reads the stored mask instead of drawing again: one byte per element is cheaper than Philox.
__global__ void DropoutBackwardKernel(FtDropoutBackward g, float kept) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kOctet;
  const std::int64_t left = g.elements - at;
  if (left <= 0) return;
  float d[kOctet];
  LoadAnyOctet(g.dy, g.dtype, at, left, d);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) d[i] = i < left && g.mask[at + i] != 0 ? kept * d[i] : 0.0F;
  StoreAnyOctet(g.dx, g.dtype, at, left, d);
}

void DropoutBackward(CudaCheck& check, const FtDropoutBackward& g) {
  if (g.elements == 0) return;
  FT_LAUNCH(DropoutBackwardKernel, dim3(Blocks(g.elements, kBlock * kOctet)), dim3(kBlock), 0,
            check.stream(), g, 1.0F / (1.0F - g.probability));
}

}  // namespace

void SetCudaDropoutEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::dropout, &Dropout>(api);
  SetCuda<&FtDeviceApi::dropout_backward, &DropoutBackward>(api);
}

}  // namespace foretrain
