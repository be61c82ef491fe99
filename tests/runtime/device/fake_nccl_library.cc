#include "tests/runtime/device/fake_nccl_library.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/paths.h"

namespace foretrain {

std::string FakeNcclFile() { return TestPlugin("nccl"); }

const NcclApi& FakeNcclApi() {
  static const NcclApi api = [] {
    auto loaded = LoadNccl(FakeNcclFile());
    EXPECT_TRUE(loaded.has_value()) << loaded.error().message;
    return *loaded;
  }();
  return api;
}

FakeNccl& FakeNcclControl() {
  static FakeNccl* const control = [] {
    void* const library = dlopen(FakeNcclFile().c_str(), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FakeNccl* (*)()>(dlsym(library, "fake_nccl"))();
  }();
  return *control;
}

}  // namespace foretrain
