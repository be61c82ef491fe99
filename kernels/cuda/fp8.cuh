// Codes of 8 bits with one scale a tensor, FT_FP8 and FT_E5M2: what a code is, and turning a matrix
// of them. fp8.cu makes them.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel.cuh"

namespace foretrain {

constexpr bool IsCode(FtDtype dtype) { return dtype == FT_FP8 || dtype == FT_E5M2; }
constexpr float LargestCode(FtDtype format) { return format == FT_FP8 ? 448.0F : 57344.0F; }

// The largest code where `x` is beyond it; 0 of NaN.
FT_DEVICE std::uint8_t CodeOf(FtDtype format, float x) {
  const float top = LargestCode(format);
  const float within = x > top ? top : x < -top ? -top : x == x ? x : 0.0F;
  return format == FT_FP8 ? Fp8OfFloat(within) : E5m2OfFloat(within);
}

// Number i of a product's operand, before its scale.
FT_DEVICE float LoadOperand(const void* at, FtDtype dtype, std::int64_t i) {
  if (dtype == FT_FP8) return FloatOfFp8(static_cast<const std::uint8_t*>(at)[i]);
  if (dtype == FT_E5M2) return FloatOfE5m2(static_cast<const std::uint8_t*>(at)[i]);
  return LoadAny(at, dtype, i);
}

// to[cols, rows] = from[rows, cols] turned; rows of `from`, at most 4 million and above 0 as cols
// are, are `stride` apart. Enqueued.
void TurnCodes(FtQueue* queue, const void* from, std::int64_t stride, std::int64_t rows,
               std::int64_t cols, void* to);

}  // namespace foretrain
