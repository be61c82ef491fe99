// The kernels' tests on a GPU: those of kernels_tests as the variant cuda_gpu, against the table of
// the plugin. Where there is no device it says why and exits with 77.
#include <gtest/gtest.h>

#include <cstdio>
#include <string_view>

#include "runtime/cuda_plugin.h"
#include "tests/kernels/gpu/mirror.h"
#include "tests/kernels/support.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "kernels/cuda/shim_device.h"
#endif

namespace {

constexpr int kSkipped = 77;

struct Options {
  bool on_host = false;    // the kernels executed on the host, to test the copies of arguments
  bool unguarded = false;  // under a memory checker
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

// Where the build puts the plugin; null and a reason where it is not usable.
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
    // As GTEST_SKIP() writes it: tools/test counts reasons by it.
    std::printf("%s:%d: Skipped\nneeds a GPU: %s; run tools/gpu-check where there is one\n",
                __FILE__, __LINE__, device.why.c_str());
    return kSkipped;
  }
  foretrain::test::UseGpu(
      foretrain::test::MirrorOf(*device.api, {.guard_bytes = options.unguarded ? 0 : 256}));
  // A filter of the command line replaces it.
  GTEST_FLAG_SET(filter, "*/cuda_gpu");
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
