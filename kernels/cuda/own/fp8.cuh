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

// Code of x. Values beyond the largest code saturate; NaN gives 0.
FT_DEVICE std::uint8_t CodeOf(FtDtype format, float x) {
  const float top = LargestCode(format);
  const float within = x > top ? top : x < -top ? -top : x == x ? x : 0.0F;
  return format == FT_FP8 ? Fp8OfFloat(within) : E5m2OfFloat(within);
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
