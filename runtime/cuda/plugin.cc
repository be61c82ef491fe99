// The plugin's one exported function, which returns the CUDA device's table.
// runtime/device/cuda_plugin.h finds it by name.
#include <cstdlib>

#include "kernels/cuda/device/entries.h"
#include "profiler/cuda/capture_entries.h"

namespace foretrain {
namespace {

FtDeviceApi MakeTable() {
  FtDeviceApi api = MakeCudaTable();
  SetCudaCaptureEntries(api);
  return api;
}

}  // namespace
}  // namespace foretrain

extern "C" __attribute__((visibility("default"))) const FtDeviceApi* foretrain_cuda_device_api() {
  // Read by CUDA when the device is first used. With fewer connections, the device's queues share
  // hardware queues and wait for each other.
  static const int connections = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  static_cast<void>(connections);
  static const FtDeviceApi api = foretrain::MakeTable();
  return &api;
}
