// Formats that kernels of all devices take alike. Leaves out the 16-bit ones, in which devices
// differ.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Products round what they read; attention reads all of fp32, which takes nothing from its results.
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

// Of fp32, TF32, masks, and codes of 8 and of 4 bits; false for all others.
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
      return kernel == FT_KERNEL_GEMM || kernel == FT_KERNEL_QUANTIZE_TENSOR;
    case FT_NF4:
      return kernel == FT_KERNEL_QUANTIZE || kernel == FT_KERNEL_DEQUANTIZE;
    default:
      return false;
  }
}

}  // namespace foretrain
