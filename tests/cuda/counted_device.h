// The plugin's device, which counts what the kernels of each entry do.
#pragma once

#include <map>

#include "base/device_api.h"
#include "tests/plugins/cuda/kernels.h"

namespace foretrain {

// The table of a device that waits for each entry's kernels, so only one thread may use it.
const FtDeviceApi& CountedCudaPlugin();

// Work of own kernels by entry since the last call. Libraries' kernels are not counted.
std::map<FtKernel, ptx::Counts> TakeCounts();

}  // namespace foretrain
