// The plugin's device over the tests' CUDA libraries (tests/plugins/cuda).
#pragma once

#include <string>

#include "base/device_api.h"

namespace foretrain {

// The table of the plugin in the build folder. Fails the test if it does not load.
const FtDeviceApi& CudaPlugin();

// A function of the tests' CUDA runtime, which the plugin has loaded. Fails the test if that
// runtime is another.
void* FunctionOfRuntime(const char* name);

}  // namespace foretrain
