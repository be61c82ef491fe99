// The plugin's one exported function: the CUDA device's table put together. Leaves out how it is
// found (runtime/cuda_plugin.h, which looks for the function's name).
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
  static const FtDeviceApi api = foretrain::MakeTable();
  return &api;
}
