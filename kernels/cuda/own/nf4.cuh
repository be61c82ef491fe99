// 4-bit quantization and its inverse for FT_NF4, called by the entries of exchange.cu.
#pragma once

#include "base/device_api.h"
#include "kernels/cuda/device/check.h"

namespace foretrain {

// Checks g, whose format is FT_NF4, and enqueues the work. Quantization keeps one fp32 per 64
// values in the queue's workspace. FT_UNSUPPORTED past 2^30 such blocks.
FtStatus QuantizeNf4(FtQueue* queue, CudaCheck& check, const FtQuantize& g);
FtStatus DequantizeNf4(FtQueue* queue, CudaCheck& check, const FtQuantize& g);

}  // namespace foretrain
