// A plugin of the tests: the table's version and what its device_count answers come from
// FAKE_VERSION and FAKE_DEVICES; with FAKE_VERSION below 0 there is no function at all.
#include <cstdio>

#include "base/device_api.h"

#if FAKE_VERSION >= 0
namespace {

FtStatus DeviceCount(int32_t* count, char* why, size_t n) {
  *count = FAKE_DEVICES;
  if (FAKE_DEVICES > 0) return FT_OK;
  std::snprintf(why, n, "no CUDA-capable device is detected (cudaErrorNoDevice)");
  return FT_FAILED;
}

FtDeviceApi MakeTable() {
  FtDeviceApi api{};
  api.version = FAKE_VERSION;
  api.name = "fake";
  api.device_count = &DeviceCount;
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const FtDeviceApi* foretrain_cuda_device_api() {
  static const FtDeviceApi api = MakeTable();
  return &api;
}
#endif
