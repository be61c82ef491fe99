// The plugin's one exported function: the CUDA device's table put together. Leaves out how it is
// found (runtime/cuda_plugin.h, which looks for the function's name).
#include <cstdlib>

#include "kernels/cuda/entries.h"
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
  // Read when the device is first used. With fewer, queues of the device share one of the host's
  // and wait for each other.
  static const int connections = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  static_cast<void>(connections);
  static const FtDeviceApi api = foretrain::MakeTable();
  return &api;
}
