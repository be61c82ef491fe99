// The kernel entries of the CPU's table: check the arguments, then run the queue's kernels in the
// calling thread.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Sets the kernel entries and `supports` of `api`. Every entry refuses, with a sentence in the
// queue's text and without touching a tensor: a dtype that `supports` does not name
// (FT_UNSUPPORTED), a head_dim over kMaxHeadDim (FT_UNSUPPORTED), a negative size, a row stride
// below the row's length, a null tensor that the sizes make needed, an id outside the vocabulary
// (FT_FAILED). A tensor of no elements may be null and is left alone.
void SetCpuKernels(FtDeviceApi& api);

}  // namespace foretrain
