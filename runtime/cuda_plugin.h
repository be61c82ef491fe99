// Finds the CUDA device: the plugin libforetrain_cuda.so beside the executable, loaded where the
// machine has a driver. Leaves out what the device does: base/device_api.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/device_api.h"

namespace foretrain {

// Where to look. A test names others.
struct PluginPlaces {
  std::string driver = "libcuda.so.1";  // must load before the plugin is tried; empty: none need
  std::vector<std::string> files;       // of which the first that exists is loaded
};

// Beside the running executable, then in ../lib of its folder.
PluginPlaces UsualPluginPlaces();

struct CudaDevice {
  const FtDeviceApi* api = nullptr;  // null: not usable
  std::int32_t count = 0;            // devices
  std::string why;                   // where it is not usable: a sentence without a full stop
  int runtime_version = 0;           // of CUDA, that the plugin is linked with; 0: not known
};

// The device's table, which is never unloaded, or why there is none: no driver, no plugin, one that
// does not load or is of another version, no device. Without a driver under a millisecond; with one
// the plugin's libraries are loaded, tenths of a second. Safe from any thread.
CudaDevice LoadCudaDevice(const PluginPlaces& places);

}  // namespace foretrain
