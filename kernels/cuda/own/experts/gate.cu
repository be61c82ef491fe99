// Row gates, and router balancing without a loss (load counts and the biases that follow them).
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

FT_DEVICE float Sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

// One octet per thread.
template <class T>
__global__ void GateForwardKernel(FtGateForward g) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t row = thread / octets, col = thread % octets * kOctet;
  if (row >= g.rows) return;
  const std::int64_t left = g.cols - col;
  const float open = Sigmoid(g.scores[row]);
  T* const out = static_cast<T*>(g.y) + row * g.cols + col;
  float x[kOctet], y[kOctet] = {};
  LoadOctet(static_cast<const T*>(g.x) + row * g.cols + col, left, x);
  if (g.accumulate != 0) LoadOctet(out, left, y);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) y[i] += x[i] * open;
  StoreOctet(out, left, y);
}

// One block per row. Products of fp32 values are exact in fp64, where they are summed.
template <class T>
__global__ void __launch_bounds__(1024) GateBackwardKernel(FtGateBackward g) {
  const std::int64_t row = blockIdx.x, step = std::int64_t{blockDim.x} * kOctet;
  const float open = Sigmoid(g.scores[row]);
  double dot = 0.0;
  for (std::int64_t c = std::int64_t{threadIdx.x} * kOctet; c < g.cols; c += step) {
    const std::int64_t at = row * g.cols + c, left = g.cols - c;
    float dy[kOctet], x[kOctet];
    LoadOctet(static_cast<const T*>(g.dy) + at, left, dy);
    LoadOctet(static_cast<const T*>(g.x) + at, left, x);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      dot += static_cast<double>(dy[i]) * static_cast<double>(x[i]);
      dy[i] *= open;
    }
    StoreOctet(static_cast<T*>(g.dx) + at, left, dy);
  }
  dot = JoinBlock(dot, 0.0, Sum{});
  if (threadIdx.x == 0) g.d_scores[row] = static_cast<float>(dot) * open * (1.0F - open);
}

// Rows and octets of columns are independent, so the grid covers both.
void GateForward(CudaCheck& check, const FtGateForward& g) {
  if (g.rows * g.cols == 0) return;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(GateForwardKernel<decltype(type)>, dim3(Blocks(g.rows * octets, kBlock)),
              dim3(kBlock), 0, check.stream(), g);
  });
}

void GateBackward(CudaCheck& check, const FtGateBackward& g) {
  if (g.rows == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(GateBackwardKernel<decltype(type)>, dim3(Blocks(g.rows, 1)), dim3(RowThreads(g.cols)),
              0, check.stream(), g);
  });
}

// One block per expert. Counts are integers below 2^24, exact in any order of addition.
__global__ void CountChoicesKernel(FtCountChoices g) {
  const auto expert = static_cast<std::int32_t>(blockIdx.x);
  double count = 0.0;
  for (std::int64_t i = threadIdx.x; i < g.rows * g.per_token; i += kBlock) {
    count += g.chosen[i] == expert ? 1.0 : 0.0;
  }
  count = JoinBlock(count, 0.0, Sum{});
  if (threadIdx.x == 0) g.loads[expert] += static_cast<float>(count);
}

void CountChoices(CudaCheck& check, const FtCountChoices& g) {
  FT_LAUNCH(CountChoicesKernel, dim3(Blocks(g.experts, 1)), dim3(kBlock), 0, check.stream(), g);
}

// A single block: experts are at most a few thousand, and the mean needs all of them.
__global__ void BalanceBiasKernel(FtBalanceBias g) {
  double sum = 0.0;
  for (std::int64_t e = threadIdx.x; e < g.experts; e += kBlock) {
    sum += static_cast<double>(g.loads[e]);
  }
  const double mean = JoinBlock(sum, 0.0, Sum{}) / static_cast<double>(g.experts);
  for (std::int64_t e = threadIdx.x; e < g.experts; e += kBlock) {
    const double load = static_cast<double>(g.loads[e]);
    if (load < mean) g.bias[e] += g.rate;
    if (load > mean) g.bias[e] -= g.rate;
    g.loads[e] = 0.0F;
  }
}

void BalanceBias(CudaCheck& check, const FtBalanceBias& g) {
  FT_LAUNCH(BalanceBiasKernel, dim3(1), dim3(kBlock), 0, check.stream(), g);
}

}  // namespace

void SetCudaGateEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::gate_forward, &GateForward>(api);
  SetCuda<&FtDeviceApi::gate_backward, &GateBackward>(api);
  SetCuda<&FtDeviceApi::count_choices, &CountChoices>(api);
  SetCuda<&FtDeviceApi::balance_bias, &BalanceBias>(api);
}

}  // namespace foretrain
