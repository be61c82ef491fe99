// Finds the CUDA device: the plugin libforetrain_cuda.so next to the executable, loaded if the
// machine has a driver. The device itself: base/device_api.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device_api.h"

namespace foretrain {

// Where to look; tests name other places.
struct PluginPlaces {
  std::string driver = "libcuda.so.1";  // must load before the plugin is tried; empty: not needed
  std::vector<std::string> files;       // the first existing file is loaded
};

// Next to the running executable, then in ../lib of its folder.
PluginPlaces UsualPluginPlaces();

// Lets the driver load kernels with the plugin instead of at their first launch, unless the user
// has set CUDA_MODULE_LOADING. Loading may wait for the device, which may run a collective that
// waits for another rank. Call it before LoadCudaDevice.
void LoadKernelsEagerly();

struct CudaDevice {
  const FtDeviceApi* api = nullptr;  // null: unusable
  std::int32_t count = 0;            // number of devices
  std::string why;                   // reason if unusable: a sentence without full stop
  int runtime_version = 0;           // CUDA version that the plugin is linked with; 0: unknown
};

// The device's table, which is never unloaded, or the reason why there is none: no driver, no
// plugin, a plugin that does not load or has another version, no device. Without a driver this
// takes under a millisecond, else tenths of a second to load the plugin's libraries. Safe from any
// thread.
CudaDevice LoadCudaDevice(const PluginPlaces& places);

}  // namespace foretrain
