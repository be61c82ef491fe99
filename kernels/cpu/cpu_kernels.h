// Kernel entries of the CPU's table. Each checks its arguments, then runs the queue's kernels in
// the calling thread.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// True if the kernel accepts bf16 and fp16 tensors.
bool TakesShortTensors(FtKernel kernel);

// Sets the kernel entries and `supports` of `api`. An entry refuses bad arguments without touching
// a tensor and leaves a sentence in the queue's text. FT_UNSUPPORTED: a dtype that `supports` does
// not accept, or a head_dim over kMaxHeadDim. FT_FAILED: a negative size, a row stride below the
// row's length, a null tensor that has elements, or an id outside the vocabulary. A tensor without
// elements may be null and is left alone.
void SetCpuKernels(FtDeviceApi& api);

}  // namespace foretrain
