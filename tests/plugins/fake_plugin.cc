// A plugin for tests: FAKE_VERSION is the version of its table and FAKE_DEVICES its device_count.
// With FAKE_VERSION below 0 the entry function is missing.
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
