// The capture entries of the CUDA device's table.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Sets them, and wraps `native_queue`, which must be set, to see which op a library works for.
// Without CUPTI's headers capture_open is unsupported; windows and ranges for other tools remain.
void SetCudaCaptureEntries(FtDeviceApi& api);

}  // namespace foretrain
