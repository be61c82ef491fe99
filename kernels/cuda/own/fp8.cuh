// 8-bit codes with scales, FT_FP8 and FT_E5M2: conversion, and transposition of a matrix of codes.
// fp8.cu quantizes with one scale per tensor, fp8_blocks.cu with block scales.
#pragma once

#include <cstdint>

#include "kernels/cuda/own/kernel.cuh"
#include "kernels/formats.h"

namespace foretrain {

constexpr float LargestCode(FtDtype format) { return format == FT_FP8 ? 448.0F : 57344.0F; }

// |x|, or infinity for NaN, so that the maximum of several shows a NaN.
FT_DEVICE float SizeOf(float x) {
  const std::uint32_t bits = BitsOfFloat(x) & 0x7fffffffU;
  return FloatOfBits(bits > 0x7f800000U ? 0x7f800000U : bits);
}
FT_DEVICE float InverseOf(float scale) {  // a smaller scale has an inverse beyond fp32's range
  return scale > 1e-37F ? 1.0F / scale : 0.0F;
}

// Eight codes, the first in the lowest byte of the first word.
struct CodeOctet {
  std::uint32_t words[2];
};

// Codes of two numbers, the first in the low byte. Values beyond the largest code saturate; NaN
// gives 0.
FT_DEVICE std::uint32_t PairOfCodes(FtDtype format, float first, float second) {
  first = first == first ? first : 0.0F;
  second = second == second ? second : 0.0F;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  if (format == FT_FP8) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  const float top = LargestCode(format);
  const auto code = [&](float x) {
    const float within = x > top ? top : x < -top ? -top : x;
    return std::uint32_t{format == FT_FP8 ? Fp8OfFloat(within) : E5m2OfFloat(within)};
  };
  return code(first) | code(second) << 8;
#endif
}
FT_DEVICE CodeOctet CodesOf(FtDtype format, const float (&x)[kOctet]) {
  return {{PairOfCodes(format, x[0], x[1]) | PairOfCodes(format, x[2], x[3]) << 16,
           PairOfCodes(format, x[4], x[5]) | PairOfCodes(format, x[6], x[7]) << 16}};
}

FT_DEVICE bool IsAlignedTo(const void* at, unsigned bytes) {
  return (reinterpret_cast<std::uintptr_t>(at) & (bytes - 1)) == 0;
}

// Writes the `left` codes that exist of eight.
FT_DEVICE void StoreCodes(std::uint8_t* to, const CodeOctet& codes, std::int64_t left) {
  if (left >= kOctet && IsAlignedTo(to, 8)) {
    *reinterpret_cast<uint2*>(to) = {codes.words[0], codes.words[1]};
    return;
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    if (i < left) to[i] = static_cast<std::uint8_t>(codes.words[i / 4] >> i % 4 * 8);
  }
}

// Element i of a product's operand, before its scale.
FT_DEVICE float LoadOperand(const void* at, FtDtype dtype, std::int64_t i) {
  if (dtype == FT_FP8) return FloatOfFp8(static_cast<const std::uint8_t*>(at)[i]);
  if (dtype == FT_E5M2) return FloatOfE5m2(static_cast<const std::uint8_t*>(at)[i]);
  return LoadAny(at, dtype, i);
}

// Scales of a dense matrix with `cols` columns. first_row is the matrix's first row within the
// tensor that the scales belong to.
struct CodeScales {
  const float* at;
  FtScaling scaling;
  std::int64_t cols, first_row;

  // True if scales vary within the matrix. A single scale is applied once, at the end of the
  // product.
  FT_DEVICE bool AreOfBlocks() const { return at != nullptr && scaling != FT_SCALE_TENSOR; }
  FT_DEVICE float Of(std::int64_t row, std::int64_t col) const {
    return at[ScalePlace(scaling, cols, first_row + row, col)];
  }
};

// Quantizes with block scales. The caller has checked all arguments except those that only block
// scales refuse.
FtStatus QuantizeBlocks(FtQueue* queue, CudaCheck& check, const FtQuantizeTensor& g);

// to[cols, rows] = transpose of from[rows, cols]. Rows of `from` are `stride` apart. rows lies in
// [1, 4 million], cols is at least 1. Enqueued, not waited for.
void TurnCodes(FtQueue* queue, const void* from, std::int64_t stride, std::int64_t rows,
               std::int64_t cols, void* to);

}  // namespace foretrain
