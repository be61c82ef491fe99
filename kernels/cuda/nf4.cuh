// Quantization to 4 bits and back for FT_NF4: what exchange.cu's entries hand on.
#pragma once

#include "base/device_api.h"
#include "kernels/cuda/check.h"

namespace foretrain {

// Checks g, whose format is FT_NF4, and enqueues it. Quantization keeps an fp32 for each 64 numbers
// in the queue's workspace: FT_UNSUPPORTED past 2^30 of them.
FtStatus QuantizeNf4(FtQueue* queue, CudaCheck& check, const FtQuantize& g);
FtStatus DequantizeNf4(FtQueue* queue, CudaCheck& check, const FtQuantize& g);

}  // namespace foretrain
