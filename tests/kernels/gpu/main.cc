// Runs the kernel tests on a GPU, as variant cuda_gpu with the plugin's table. Without a device it
// prints the reason and exits with 77.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "runtime/device/cuda_plugin.h"
#include "tests/kernels/gpu/mirror.h"
#include "tests/kernels/support.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/shim_device.h"
#endif

namespace {

constexpr int kSkipped = 77;

struct Options {
  bool on_host = false;    // runs the kernels on the host, to test the copies of arguments
  bool unguarded = false;  // for runs under a memory checker
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--on-host") options.on_host = true;
    if (argument == "--unguarded") options.unguarded = true;
  }
  return options;
}

// Device of the plugin in the build folder. Null and a reason if it cannot be used.
foretrain::CudaDevice Device(bool on_host) {
#if FORETRAIN_HAVE_CUDA_SHIM
  if (on_host) return {&foretrain::ShimDeviceApi(), 1, "", 0};
#endif
  if (on_host) return {nullptr, 0, "kernels are executed on the host of x86-64 alone", 0};
  foretrain::PluginPlaces places;
  places.files = {FORETRAIN_CUDA_PLUGIN};
  return foretrain::LoadCudaDevice(places);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  const foretrain::CudaDevice device = Device(options.on_host);
  if (device.api == nullptr) {
    // In the format of GTEST_SKIP(), because tools/test counts skip reasons by it.
    std::printf("%s:%d: Skipped\nneeds a GPU: %s; run tools/gpu-check where there is one\n",
                __FILE__, __LINE__, device.why.c_str());
    return kSkipped;
  }
  foretrain::test::UseGpu(
      foretrain::test::MirrorOf(*device.api, {.guard_bytes = options.unguarded ? 0 : 256}));
  // The filter can be overridden on the command line.
  GTEST_FLAG_SET(filter, "*/cuda_gpu");
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
