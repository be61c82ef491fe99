// The device table of this machine's processor: fp32 kernels that run in the calling thread. Leaves
// out queues as threads, which runtime/ puts above it.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// The table of the CPU device; static data, never null. Each FtQueue holds the scratch memory of
// one thread: two threads must not use one queue at a time.
const FtDeviceApi& CpuDeviceApi();

}  // namespace foretrain
