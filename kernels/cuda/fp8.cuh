// Codes of 8 bits with scales, FT_FP8 and FT_E5M2: what a code is, and turning a matrix of them.
// fp8.cu makes those of one scale a tensor, fp8_blocks.cu those of blocks.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel.cuh"
#include "kernels/formats.h"

namespace foretrain {

constexpr bool IsCode(FtDtype dtype) { return dtype == FT_FP8 || dtype == FT_E5M2; }
constexpr float LargestCode(FtDtype format) { return format == FT_FP8 ? 448.0F : 57344.0F; }

// |x|; infinite of NaN, so that the largest of several is no number that a code stands for.
FT_DEVICE float SizeOf(float x) {
  const std::uint32_t bits = BitsOfFloat(x) & 0x7fffffffU;
  return FloatOfBits(bits > 0x7f800000U ? 0x7f800000U : bits);
}
FT_DEVICE float InverseOf(float scale) {  // below, its inverse is no number
  return scale > 1e-37F ? 1.0F / scale : 0.0F;
}

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

// Codes with scales that lie by blocks of a dense matrix of `cols` columns, of which the first row
// is `first_row` of those that scales were made of.
struct CodeScales {
  const float* at;
  FtScaling scaling;
  std::int64_t cols, first_row;

  // Where they are all one, that is for whoever ends the product.
  FT_DEVICE bool AreOfBlocks() const { return at != nullptr && scaling != FT_SCALE_TENSOR; }
  FT_DEVICE float Of(std::int64_t row, std::int64_t col) const {
    return at[ScalePlace(scaling, cols, first_row + row, col)];
  }
};

// Rows of blocks to codes; the arguments have been checked but for what only blocks refuse.
FtStatus QuantizeBlocks(FtQueue* queue, CudaCheck& check, const FtQuantizeTensor& g);

// to[cols, rows] = from[rows, cols] turned; rows of `from`, at most 4 million and above 0 as cols
// are, are `stride` apart. Enqueued.
void TurnCodes(FtQueue* queue, const void* from, std::int64_t stride, std::int64_t rows,
               std::int64_t cols, void* to);

}  // namespace foretrain
