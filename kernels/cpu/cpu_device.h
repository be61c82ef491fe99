// Device table of the host processor: fp32 kernels that run in the calling thread. The runtime adds
// the queue threads on top.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// The table of the CPU device; static data, never null. Each FtQueue owns scratch memory, so two
// threads must not use one queue at the same time.
const FtDeviceApi& CpuDeviceApi();

}  // namespace foretrain
