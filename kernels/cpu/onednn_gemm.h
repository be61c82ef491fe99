// GEMM by oneDNN, kept on the calling thread.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// c (+)= op(a) * op(b) + bias in fp32 by dnnl_sgemm; the same contract as VectorKernels::gemm with
// g.k > 0. oneDNN takes its thread count from OpenMP's setting of the calling thread, which is 1
// for the length of the call.
//
// Returns NULL, or oneDNN's word for what went wrong. oneDNN allocates and frees memory of its own
// in a call.
const char* OneDnnGemm(const FtGemm& g);

}  // namespace foretrain
