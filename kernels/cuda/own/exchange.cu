// Kernels of communication: conversion to and from compressed formats, and sums over ranks.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/kernel.cuh"
#include "kernels/cuda/own/nf4.cuh"

namespace foretrain {
namespace {

constexpr std::int32_t kMostRanks = 256;

// Bytes of a quantized piece of n values. 4 divides n, so that the scales after the codes are
// aligned.
FT_DEVICE std::int64_t PieceBytes(FtDtype format, std::int64_t n) {
  if (format == FT_BF16 || format == FT_F16) return 2 * n;
  return n + (n + FT_SCALE_BLOCK - 1) / FT_SCALE_BLOCK * 4;
}

// Position of a warp: it works on one block of 256 values that share a scale, an octet per lane.
struct Place {
  std::int64_t piece, block, from;  // from: the lane's first value in its piece
  std::int64_t left;                // values from there to the end of the piece
};
FT_DEVICE Place PlaceOfWarp(const FtQuantize& g, std::int64_t blocks) {
  const std::int64_t warp = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  const std::int64_t n = g.elements / g.pieces, block = warp % blocks;
  const std::int64_t from = block * FT_SCALE_BLOCK + threadIdx.x % kWarp * kOctet;
  return {warp / blocks, block, from, n - from};
}

// Bits of the largest |x| of the warp. Integer comparison orders NaN above infinity, so a NaN
// survives.
FT_DEVICE std::uint32_t LargestBits(const float (&x)[kOctet], std::int64_t left) {
  std::uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    const std::uint32_t size = i < left ? BitsOfFloat(x[i]) & 0x7fffffffU : 0U;
    most = size > most ? size : most;
  }
#pragma unroll
  for (int bits = kWarp / 2; bits > 0; bits /= 2) {
    const std::uint32_t other = __shfl_xor_sync(kAllLanes, most, bits);
    most = other > most ? other : most;
  }
  return most;
}

// fp8 values are clamped, because x * inverse may exceed 448 by a rounding error.
FT_DEVICE std::uint8_t CodeOf(FtDtype format, float scaled) {
  if (format == FT_I8) return static_cast<std::uint8_t>(Int8OfFloat(scaled));
  return Fp8OfFloat(scaled > 448.0F ? 448.0F : scaled < -448.0F ? -448.0F : scaled);
}

// The block's maximum is found by a warp reduction, so values are read once and stay in registers.
__global__ void QuantizeKernel(FtQuantize g, std::int64_t blocks) {
  const Place at = PlaceOfWarp(g, blocks);
  if (at.piece >= g.pieces) return;
  const std::int64_t n = g.elements / g.pieces;
  auto* const piece = static_cast<std::uint8_t*>(g.out) + at.piece * PieceBytes(g.format, n);
  float x[kOctet];
  LoadAnyOctet(g.x, g.dtype, at.piece * n + at.from, at.left, x);
  if (g.format == FT_BF16 || g.format == FT_F16) {
    StoreAnyOctet(piece, g.format, at.from, at.left, x);
    return;
  }
  const float top = g.format == FT_FP8 ? 448.0F : 127.0F;
  const float largest = FloatOfBits(LargestBits(x, at.left));
  const float inverse = largest > 1e-35F ? top / largest : 0.0F;
  if (threadIdx.x % kWarp == 0) reinterpret_cast<float*>(piece + n)[at.block] = largest / top;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (i < at.left) piece[at.from + i] = CodeOf(g.format, x[i] * inverse);
  }
}

// Mirrors QuantizeKernel: one warp per block of 256 values, an octet per lane.
__global__ void DequantizeKernel(FtQuantize g, std::int64_t blocks) {
  const Place at = PlaceOfWarp(g, blocks);
  if (at.piece >= g.pieces) return;
  const std::int64_t n = g.elements / g.pieces;
  const auto* const piece =
      static_cast<const std::uint8_t*>(g.x) + at.piece * PieceBytes(g.format, n);
  float x[kOctet] = {};
  if (g.format == FT_BF16 || g.format == FT_F16) {
    LoadAnyOctet(piece, g.format, at.from, at.left, x);
  } else {
    const float scale = reinterpret_cast<const float*>(piece + n)[at.block];
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (i >= at.left) continue;
      const std::uint8_t code = piece[at.from + i];
      x[i] = scale * (g.format == FT_FP8 ? FloatOfFp8(code)
                                         : static_cast<float>(static_cast<std::int8_t>(code)));
    }
  }
  StoreAnyOctet(g.out, g.dtype, at.piece * n + at.from, at.left, x);
}

std::int64_t BlocksOfPiece(const FtQuantize& g) {
  return (g.elements / g.pieces + FT_SCALE_BLOCK - 1) / FT_SCALE_BLOCK;
}

FtStatus Quantize(FtQueue* queue, const FtQuantize* g) {
  CudaCheck check(queue, FT_KERNEL_QUANTIZE, *g);
  if (!check.ok() || g->elements == 0) return check.status();
  if (g->format == FT_NF4) return QuantizeNf4(queue, check, *g);
  const std::int64_t blocks = BlocksOfPiece(*g);
  FT_LAUNCH(QuantizeKernel, dim3(Blocks(g->pieces * blocks * kWarp, kBlock)), dim3(kBlock), 0,
            StreamOf(queue), *g, blocks);
  return check.Launched();
}

FtStatus Dequantize(FtQueue* queue, const FtQuantize* g) {
  CudaCheck check(queue, FT_KERNEL_DEQUANTIZE, *g);
  if (!check.ok() || g->elements == 0) return check.status();
  if (g->format == FT_NF4) return DequantizeNf4(queue, check, *g);
  const std::int64_t blocks = BlocksOfPiece(*g);
  FT_LAUNCH(DequantizeKernel, dim3(Blocks(g->pieces * blocks * kWarp, kBlock)), dim3(kBlock), 0,
            StreamOf(queue), *g, blocks);
  return check.Launched();
}

// The caller's array of pointers lies in host memory; the kernel receives this copy by value.
struct Sources {
  const void* at[kMostRanks];
};

// Adds the ranks in index order for each element, so that all ranks compute the same bits.
template <class T>
__global__ void SumRanksKernel(FtSumRanks g, Sources sources) {
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  const std::int64_t left = g.elements - at;
  if (left <= 0) return;
  float sum[kOctet], other[kOctet];
  LoadOctet(static_cast<const T*>(sources.at[0]) + at, left, sum);
  for (std::int32_t rank = 1; rank < g.count; ++rank) {
    LoadOctet(static_cast<const T*>(sources.at[rank]) + at, left, other);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      sum[i] = g.maximum == 0 ? sum[i] + other[i] : sum[i] > other[i] ? sum[i] : other[i];
    }
  }
  StoreOctet(static_cast<T*>(g.out) + at, left, sum);
}

// Copying pointers by value limits the ranks to kMostRanks, but needs no transfer to the device.
FtStatus SumRanks(FtQueue* queue, const FtSumRanks* g) {
  CudaCheck check(queue, FT_KERNEL_SUM_RANKS, *g);
  check.AtMost("count", g->count, kMostRanks);
  Sources sources{};
  for (std::int32_t rank = 0; check.ok() && g->elements > 0 && rank < g->count; ++rank) {
    sources.at[rank] = g->sources[rank];
  }
  if (!check.ok() || g->elements == 0) return check.status();
  WithType(g->dtype, [&](auto type) {
    FT_LAUNCH(SumRanksKernel<decltype(type)>, dim3(Blocks(g->elements, kBlock * kOctet)),
              dim3(kBlock), 0, StreamOf(queue), *g, sources);
  });
  return check.Launched();
}

}  // namespace

void SetCudaExchangeEntries(FtDeviceApi& api) {
  api.quantize = &Quantize;
  api.dequantize = &Dequantize;
  api.sum_ranks = &SumRanks;
}

}  // namespace foretrain
