#include "tests/cuda/plugin.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/device/cuda_plugin.h"
#include "tests/paths.h"

namespace foretrain {

const FtDeviceApi& CudaPlugin() {
  static const CudaDevice device = [] {
    const auto folder = std::filesystem::path(ForetrainBinary()).parent_path();
    PluginPlaces places;
    places.files = {(folder / "libforetrain_cuda.so").string()};
    return LoadCudaDevice(places);
  }();
  if (device.api == nullptr) {
    ADD_FAILURE() << device.why << "; ctest sets LD_LIBRARY_PATH to the tests' CUDA libraries";
    std::exit(1);
  }
  return *device.api;
}

}  // namespace foretrain
