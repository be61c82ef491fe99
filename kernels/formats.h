// Formats of tensors and codes, which kernels accept them, and the position of the scales of codes.
#pragma once

#include <cstdint>

#include "base/device_api.h"

namespace foretrain {

constexpr bool IsShort(FtDtype dtype) { return dtype == FT_BF16 || dtype == FT_F16; }
// True for 8-bit codes, which have scales.
constexpr bool IsCode(FtDtype dtype) { return dtype == FT_FP8 || dtype == FT_E5M2; }

constexpr std::int64_t ScaleBlocks(std::int64_t numbers) {
  return (numbers + FT_SCALE_SIDE - 1) / FT_SCALE_SIDE;
}
// Index of the scale of element (row, col) of a dense matrix with `cols` columns.
constexpr std::int64_t ScalePlace(FtScaling scaling, std::int64_t cols, std::int64_t row,
                                  std::int64_t col) {
  switch (scaling) {
    case FT_SCALE_ROWS:
      return row * ScaleBlocks(cols) + col / FT_SCALE_SIDE;
    case FT_SCALE_COLUMNS:
      return row / FT_SCALE_SIDE * cols + col;
    case FT_SCALE_TILES:
      return row / FT_SCALE_SIDE * ScaleBlocks(cols) + col / FT_SCALE_SIDE;
    default:
      return 0;
  }
}
// Number of scales of a matrix [rows, cols].
constexpr std::int64_t ScaleCount(FtScaling scaling, std::int64_t rows, std::int64_t cols) {
  switch (scaling) {
    case FT_SCALE_ROWS:
      return rows * ScaleBlocks(cols);
    case FT_SCALE_COLUMNS:
      return ScaleBlocks(rows) * cols;
    case FT_SCALE_TILES:
      return ScaleBlocks(rows) * ScaleBlocks(cols);
    default:
      return 1;
  }
}

// True if the kernel accepts TF32. Products round their operands to it; attention reads full fp32,
// which only adds precision.
inline bool TakesTf32(FtKernel kernel) {
  switch (kernel) {
    case FT_KERNEL_GEMM:
    case FT_KERNEL_GROUPED_GEMM:
    case FT_KERNEL_ATTENTION_FORWARD:
    case FT_KERNEL_ATTENTION_BACKWARD:
    case FT_KERNEL_ATTENTION_PART_FORWARD:
    case FT_KERNEL_ATTENTION_PART_BACKWARD:
    case FT_KERNEL_STANDARD_ATTENTION_FORWARD:
    case FT_KERNEL_STANDARD_ATTENTION_BACKWARD:
      return true;
    default:
      return false;
  }
}

// True if the kernel accepts `dtype`, for fp32, TF32, masks, and 8-bit and 4-bit codes. False for
// all others.
inline bool TakesFormat(FtKernel kernel, FtDtype dtype) {
  switch (dtype) {
    case FT_F32:
      return true;
    case FT_TF32:
      return TakesTf32(kernel);
    case FT_U8:  // masks
      return kernel >= FT_KERNEL_DROPOUT && kernel <= FT_KERNEL_STANDARD_ATTENTION_BACKWARD;
    case FT_FP8:
    case FT_E5M2:
      return kernel == FT_KERNEL_GEMM || kernel == FT_KERNEL_GROUPED_GEMM ||
             kernel == FT_KERNEL_QUANTIZE_TENSOR;
    case FT_NF4:
      return kernel == FT_KERNEL_QUANTIZE || kernel == FT_KERNEL_DEQUANTIZE;
    default:
      return false;
  }
}

}  // namespace foretrain
