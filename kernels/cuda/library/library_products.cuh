// Products by the device's library, with the operations around them that it lacks, and the row sums
// that accompany a weight gradient.
#pragma once

#include "base/device_api.h"
#include "kernels/cuda/device/check.h"

namespace foretrain {

// Enqueues `g`, checked and with sizes above 0, on a queue that has a library. Epilogues and row
// sums that the library refuses become separate kernels after its product. 8-bit operands are
// transposed first if it needs the depth along their rows. FT_UNSUPPORTED if it has no algorithm: c
// and row_sums are then unchanged.
FtStatus LibraryProduct(FtQueue* queue, CudaCheck& check, const FtGemm& g);

// Enqueues g.row_sums (+)= sums over k of op(a).
FtStatus SumRows(FtQueue* queue, CudaCheck& check, const FtGemm& g);

}  // namespace foretrain
