// The choice of kernels for tensor cores.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// The table's tensor_use.
FtStatus UseTensorKernels(FtQueue* queue, FtKernel kernel, FtTensorKernels kernels);

}  // namespace foretrain
