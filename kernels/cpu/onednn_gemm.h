// GEMM by oneDNN, restricted to the calling thread.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// c (+)= op(a) * op(b) + bias in fp32 by dnnl_sgemm. The contract is that of VectorKernels::gemm
// with g.k > 0. oneDNN takes its thread count from OpenMP's setting of the calling thread, which is
// 1 during the call.
//
// Returns NULL, or oneDNN's word for the failure. oneDNN allocates and frees memory of its own
// during a call.
const char* OneDnnGemm(const FtGemm& g);

}  // namespace foretrain
