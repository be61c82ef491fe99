// Quantizes tensors to 4 bits (base/numeric/nf4.h). The bytes equal the CPU's, except for the mean
// of the block maxima, whose fp64 sum has another order.
#include "kernels/cuda/own/nf4.cuh"

#include "base/numeric/nf4.h"
#include "kernels/cuda/own/kernel.cuh"

namespace foretrain {
namespace {

constexpr int kCodes = 16;
constexpr std::int64_t kWarps = kBlock / kWarp;

// Offsets of the parts of a packed tensor, and the values of the codes.
struct Parts {
  std::int64_t elements, blocks, scales, mean, block_codes;
  float quantiles[kCodes];
};
Parts PartsOf(std::int64_t elements) {
  const Nf4Layout at(elements);
  Parts parts{elements, at.blocks, at.scales, at.mean, at.block_codes, {}};
  for (int code = 0; code < kCodes; ++code) parts.quantiles[code] = kNf4Quantiles[code];
  return parts;
}

// fp32 values in a packed tensor are unaligned.
FT_DEVICE float LoadBytes(const std::uint8_t* at) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<std::uint32_t>(at[i]) << 8 * i;
  return FloatOfBits(bits);
}
FT_DEVICE void StoreBytes(std::uint8_t* at, float x) {
  const std::uint32_t bits = BitsOfFloat(x);
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(bits >> 8 * i);
}

// One warp per block of 64: two values and one byte of codes per lane. Writes largest [blocks].
__global__ void PackBlocksKernel(FtQuantize g, Parts parts, float* largest) {
  const std::int64_t block = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) / kWarp;
  if (block >= parts.blocks) return;
  const std::int64_t at = block * kNf4Block + static_cast<std::int64_t>(threadIdx.x) % kWarp * 2;
  float x[2];
  for (int i = 0; i < 2; ++i) {
    x[i] = at + i < parts.elements ? LoadAny(g.x, g.dtype, at + i) : 0.0F;
  }
  const float most = JoinWarp(fmaxf(fabsf(x[0]), fabsf(x[1])), Most{});
  const float inverse = most > 0.0F ? 1.0F / most : 0.0F;
  std::uint32_t codes[2] = {};
  for (int next = 1; next < kCodes; ++next) {
    const float edge = (parts.quantiles[next - 1] + parts.quantiles[next]) / 2.0F;
    for (int i = 0; i < 2; ++i) {
      if (at + i < parts.elements && x[i] * inverse > edge) {
        codes[i] = static_cast<std::uint32_t>(next);
      }
    }
  }
  if (at < parts.elements) {
    static_cast<std::uint8_t*>(g.out)[at / 2] = static_cast<std::uint8_t>(codes[0] << 4 | codes[1]);
  }
  if (threadIdx.x % kWarp == 0) largest[block] = most;
}

// One block: the mean of the block maxima, which is subtracted before they are quantized.
__global__ void PackMeanKernel(Parts parts, const float* largest, std::uint8_t* packed) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < parts.blocks; i += kBlock) {
    sum += static_cast<double>(largest[i]);
  }
  sum = JoinBlock(sum, 0.0, Sum{});
  if (threadIdx.x != 0) return;
  StoreBytes(packed + parts.mean, static_cast<float>(sum / static_cast<double>(parts.blocks)));
}

// One thread block per 256 quantization blocks, whose maxima share a scale: one maximum per thread.
__global__ void PackScalesKernel(Parts parts, const float* largest, std::uint8_t* packed) {
  static_assert(kNf4OuterBlock == kBlock);
  const std::int64_t block = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const bool is_there = block < parts.blocks;
  const float left = is_there ? largest[block] - LoadBytes(packed + parts.mean) : 0.0F;
  const float scale = JoinBlock(fabsf(left), 0.0F, Most{});
  if (threadIdx.x == 0) StoreBytes(packed + parts.scales + std::int64_t{blockIdx.x} * 4, scale);
  if (is_there) {
    packed[parts.block_codes + block] = SignedDynamicOfFloat(scale > 0.0F ? left / scale : 0.0F);
  }
}

// Eight values of one block per thread.
__global__ void UnpackKernel(FtQuantize g, Parts parts) {
  __shared__ float quantiles[kCodes];
  if (threadIdx.x < kCodes) quantiles[threadIdx.x] = parts.quantiles[threadIdx.x];
  __syncthreads();
  const std::int64_t at = (std::int64_t{blockIdx.x} * kBlock + threadIdx.x) * kOctet;
  const std::int64_t left = parts.elements - at, block = at / kNf4Block;
  if (left <= 0) return;
  const auto* const packed = static_cast<const std::uint8_t*>(g.x);
  const float scale = LoadBytes(packed + parts.scales + block / kNf4OuterBlock * 4);
  const float largest = FloatOfSignedDynamic(packed[parts.block_codes + block]) * scale +
                        LoadBytes(packed + parts.mean);
  float x[kOctet] = {};
#pragma unroll
  for (int i = 0; i < kOctet; i += 2) {
    if (i >= left) break;
    const std::uint32_t codes = packed[(at + i) / 2];
    x[i] = quantiles[codes >> 4] * largest;
    x[i + 1] = quantiles[codes & 15U] * largest;
  }
  StoreAnyOctet(g.out, g.dtype, at, left, x);
}

}  // namespace

// Three kernels, because the mean needs all block maxima, and the codes of the maxima need the
// mean.
FtStatus QuantizeNf4(FtQueue* queue, CudaCheck& check, const FtQuantize& g) {
  const Parts parts = PartsOf(g.elements);
  auto* const largest = reinterpret_cast<float*>(
      check.Workspace(parts.blocks * static_cast<std::int64_t>(sizeof(float))));
  if (!check.ok()) return check.status();
  auto* const packed = static_cast<std::uint8_t*>(g.out);
  FT_LAUNCH(PackBlocksKernel, dim3(Blocks(parts.blocks, kWarps)), dim3(kBlock), 0, StreamOf(queue),
            g, parts, largest);
  FT_LAUNCH(PackMeanKernel, dim3(1), dim3(kBlock), 0, StreamOf(queue), parts, largest, packed);
  FT_LAUNCH(PackScalesKernel, dim3(Blocks(parts.blocks, kBlock)), dim3(kBlock), 0, StreamOf(queue),
            parts, largest, packed);
  return check.Launched();
}

FtStatus DequantizeNf4(FtQueue* queue, CudaCheck& check, const FtQuantize& g) {
  FT_LAUNCH(UnpackKernel, dim3(Blocks(g.elements, kBlock * std::int64_t{kOctet})), dim3(kBlock), 0,
            StreamOf(queue), g, PartsOf(g.elements));
  return check.Launched();
}

}  // namespace foretrain
