// Products by the device's library, with what it lacks beside them, and the sums of an operand's
// rows that go with the gradient of a weight.
#pragma once

#include "base/device_api.h"
#include "kernels/cuda/check.h"

namespace foretrain {

// Enqueues `g`, checked, with sizes above 0, on a queue that has a library. An epilogue or row sums
// that the library does not take are kernels of their own behind its product; codes of 8 bits are
// turned first where it wants the depth along their rows. FT_UNSUPPORTED where it has no algorithm:
// nothing was enqueued that c or row_sums show.
FtStatus LibraryProduct(FtQueue* queue, CudaCheck& check, const FtGemm& g);

// g.row_sums (+)= the sums over k of op(a). Enqueued.
FtStatus SumRows(FtQueue* queue, CudaCheck& check, const FtGemm& g);

}  // namespace foretrain
