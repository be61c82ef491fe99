// The CUDA device's table with its kernels executed on the host, for tests: memory is the host's,
// and an entry has done its work when it returns.
#pragma once

#include "base/device_api.h"

namespace foretrain {

const FtDeviceApi& ShimDeviceApi();

}  // namespace foretrain
