// The CUDA runtime version that the plugin was linked with; runtime/device/cuda_plugin.cc finds it
// by name.
#include <cuda_runtime.h>

extern "C" __attribute__((visibility("default"))) int foretrain_cuda_runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}
