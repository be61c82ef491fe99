#include "tests/cuda/plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "runtime/device/cuda_plugin.h"
#include "tests/paths.h"

namespace foretrain {

namespace {

const CudaDevice& Loaded() {
  static const CudaDevice device = [] {
    const auto folder = std::filesystem::path(ForetrainBinary()).parent_path();
    PluginPlaces places;
    places.files = {(folder / "libforetrain_cuda.so").string()};
    return LoadCudaDevice(places);
  }();
  return device;
}

}  // namespace

const FtDeviceApi& CudaPlugin() {
  if (Loaded().api == nullptr) {
    ADD_FAILURE() << Loaded().why << "; ctest sets LD_LIBRARY_PATH to the tests' CUDA libraries";
    std::exit(1);
  }
  return *Loaded().api;
}

void* FunctionOfRuntime(const char* name) {
  const std::string file = "libcudart.so." + std::to_string(Loaded().runtime_version / 1000);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  void* const function = library != nullptr ? dlsym(library, name) : nullptr;
  if (function == nullptr) {
    ADD_FAILURE() << file << " is not that of the tests: it has no " << name
                  << "; ctest sets LD_LIBRARY_PATH";
    std::exit(1);
  }
  return function;
}

}  // namespace foretrain
