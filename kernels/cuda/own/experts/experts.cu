// Mixture of experts: moves rows to experts and back. router.cu chooses the experts, gemm.cu runs
// their products. Indices outside their tensors count as -1.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

// ---- rows to experts and back: one octet of columns per thread

// Each row of an expert copies its token's row times the pair's weight. Unused rows become 0.
template <class T>
__global__ void GatherKernel(FtExpertGather g) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t row = thread / octets, col = thread % octets * kOctet;
  if (row >= g.expert_rows) return;
  const std::int64_t left = g.cols - col, source = g.sources[row];
  float x[kOctet] = {};
  if (source >= 0 && source < g.tokens * g.per_token) {
    LoadOctet(static_cast<const T*>(g.x) + source / g.per_token * g.cols + col, left, x);
    const float weight = g.weights == nullptr ? 1.0F : g.weights[source];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] *= weight;
  }
  StoreOctet(static_cast<T*>(g.out) + row * g.cols + col, left, x);
}

// Gathers instead of scattering: each token adds its experts' rows in the order of j, without
// atomics.
template <class T>
__global__ void CombineKernel(FtExpertCombine g) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t token = thread / octets, col = thread % octets * kOctet;
  if (token >= g.tokens) return;
  const std::int64_t left = g.cols - col;
  float sum[kOctet] = {}, x[kOctet];
  for (std::int64_t pair = token * g.per_token; pair < (token + 1) * g.per_token; ++pair) {
    const std::int64_t place = g.places[pair];
    if (place < 0 || place >= g.expert_rows) continue;
    LoadOctet(static_cast<const T*>(g.x) + place * g.cols + col, left, x);
    const float weight = g.weights == nullptr ? 1.0F : g.weights[pair];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum[i] += x[i] * weight;
  }
  StoreOctet(static_cast<T*>(g.out) + token * g.cols + col, left, sum);
}

// One warp per pair. Products of fp32 values are exact in fp64, where they are summed.
template <class T>
__global__ void DotsKernel(FtExpertDots g) {
  const std::int64_t pair = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (pair >= g.tokens * g.per_token) return;
  const std::int64_t place = g.places[pair], lane = threadIdx.x % kWarp;
  double sum = 0.0;
  if (place >= 0 && place < g.expert_rows) {
    for (std::int64_t c = lane * kOctet; c < g.cols; c += kWarp * kOctet) {
      float dy[kOctet], x[kOctet];
      LoadOctet(static_cast<const T*>(g.dy) + pair / g.per_token * g.cols + c, g.cols - c, dy);
      LoadOctet(static_cast<const T*>(g.x) + place * g.cols + c, g.cols - c, x);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        sum += static_cast<double>(dy[i]) * static_cast<double>(x[i]);
      }
    }
  }
  sum = JoinWarp(sum, Sum{});
  if (lane == 0) g.out[pair] = static_cast<float>(sum);
}

void ExpertGather(CudaCheck& check, const FtExpertGather& g) {
  if (g.expert_rows * g.cols == 0) return;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(GatherKernel<decltype(type)>, dim3(Blocks(g.expert_rows * octets, kBlock)),
              dim3(kBlock), 0, check.stream(), g);
  });
}

void ExpertCombine(CudaCheck& check, const FtExpertCombine& g) {
  if (g.tokens * g.cols == 0) return;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(CombineKernel<decltype(type)>, dim3(Blocks(g.tokens * octets, kBlock)), dim3(kBlock),
              0, check.stream(), g);
  });
}

void ExpertDots(CudaCheck& check, const FtExpertDots& g) {
  if (g.tokens == 0) return;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(DotsKernel<decltype(type)>, dim3(Blocks(g.tokens * g.per_token * kWarp, kBlock)),
              dim3(kBlock), 0, check.stream(), g);
  });
}

}  // namespace

void SetCudaExpertEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::expert_gather, &ExpertGather>(api);
  SetCuda<&FtDeviceApi::expert_combine, &ExpertCombine>(api);
  SetCuda<&FtDeviceApi::expert_dots, &ExpertDots>(api);
}

}  // namespace foretrain
