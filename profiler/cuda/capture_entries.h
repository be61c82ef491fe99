// The capture entries of the CUDA device's table.
#pragma once

#include "base/device_api.h"

namespace foretrain {

// Leaves the entries NULL if the plugin was built without CUPTI's headers.
void SetCudaCaptureEntries(FtDeviceApi& api);

}  // namespace foretrain
