// The CUDA device's table with its kernels executed on the host, for tests. Memory is the host's,
// and work is done when an entry returns.
#pragma once

#include "base/device_api.h"

namespace foretrain {

const FtDeviceApi& ShimDeviceApi();

}  // namespace foretrain
