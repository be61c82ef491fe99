// A driver for tests: FAKE_GPUS GPUs with the properties of an H200; it fails to start without any.
// Beside the tests' CUDA runtime it has as many GPUs as that.
#include <cstddef>
#include <cstdio>

#ifndef FAKE_GPUS
#include "tests/plugins/cuda/cudart/settings.h"
#define FAKE_GPUS foretrain::cudart::TheSettings().gpus
#endif

extern "C" {
int cuInit(unsigned) { return FAKE_GPUS == 0 ? 100 : 0; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = FAKE_GPUS;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < FAKE_GPUS ? 0 : 101;
}
// CUDA's devices 0 and 1 are the GPUs that NVML (fake_nvml.cc) lists second and first.
int cuDeviceGetPCIBusId(char* text, int n, int device) {
  std::snprintf(text, static_cast<std::size_t>(n), "0000:%02X:00.0",
                device < 2 ? 0x1C - device : 0x1B + device);
  return 0;
}
int cuDeviceGetName(char* name, int n, int) {
  std::snprintf(name, static_cast<std::size_t>(n), "NVIDIA H200");
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{141} << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 13:
      *value = 1980000;
      return 0;
    case 16:
      *value = 132;
      return 0;
    case 38:
      *value = 60 << 20;
      return 0;
    case 75:
      *value = 9;
      return 0;
    case 76:
      *value = 0;
      return 0;
    default:
      return 1;  // not known
  }
}
int cuDeviceCanAccessPeer(int* can, int device, int other) {
  *can = device != other ? 1 : 0;
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "no CUDA-capable device is detected";
  return 0;
}
}
