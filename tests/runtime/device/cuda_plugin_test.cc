#include "runtime/device/cuda_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A library present on every machine stands for the driver.
constexpr const char* kSomeLibrary = "libc.so.6";

CudaDevice LoadFake(const std::string& name) {
  return LoadCudaDevice({kSomeLibrary, {"/no/such/plugin.so", TestPlugin(name)}});
}

TEST(CudaPlugin, SaysThatThereIsNoDriverAndLooksForNoPlugin) {
  const CudaDevice device = LoadCudaDevice({"libno_such_driver.so.1", {TestPlugin("good")}});
  EXPECT_EQ(device.api, nullptr);
  EXPECT_EQ(device.why, "there is no NVIDIA driver (libno_such_driver.so.1 was not found)");
}

TEST(CudaPlugin, LoadsKernelsEagerlyUnlessTheUserHasChosen) {
  constexpr const char* kName = "CUDA_MODULE_LOADING";
  unsetenv(kName);
  LoadKernelsEagerly();
  EXPECT_STREQ(std::getenv(kName), "EAGER");
  setenv(kName, "LAZY", 1);
  LoadKernelsEagerly();
  EXPECT_STREQ(std::getenv(kName), "LAZY");
  unsetenv(kName);
}

TEST(CudaPlugin, SaysThatThereIsNoPlugin) {
  const CudaDevice device = LoadCudaDevice({kSomeLibrary, {"/no/such/plugin.so"}});
  EXPECT_EQ(device.api, nullptr);
  EXPECT_EQ(device.why,
            "this build has no CUDA plugin (/no/such/plugin.so was not found); build preset gpu or "
            "native where nvcc is");
}

TEST(CudaPlugin, SaysWhyAFileDoesNotLoad) {
  const CudaDevice device = LoadCudaDevice({kSomeLibrary, {SourcePath("README.md")}});
  EXPECT_EQ(device.api, nullptr);
  EXPECT_THAT(device.why, StartsWith("the plugin does not load: "));
}

TEST(CudaPlugin, RefusesAnotherLibraryAndAnotherVersion) {
  const CudaDevice other = LoadFake("other");
  EXPECT_EQ(other.api, nullptr);
  EXPECT_THAT(other.why, HasSubstr("is no plugin of foretrain"));
  const CudaDevice old = LoadFake("old");
  EXPECT_EQ(old.api, nullptr);
  EXPECT_THAT(old.why, HasSubstr("its table has version 1, this one needs "));
  EXPECT_THAT(old.why, EndsWith("build both together"));
}

TEST(CudaPlugin, GivesTheDriversWordsWhereThereIsNoDevice) {
  const CudaDevice device = LoadFake("empty");
  EXPECT_EQ(device.api, nullptr);
  EXPECT_EQ(device.why,
            "the driver shows no device: no CUDA-capable device is detected (cudaErrorNoDevice)");
}

TEST(CudaPlugin, HandsOutTheTableAndTheNumberOfDevices) {
  const CudaDevice device = LoadFake("good");
  ASSERT_NE(device.api, nullptr) << device.why;
  EXPECT_STREQ(device.api->name, "fake");
  EXPECT_EQ(device.count, 3);
  EXPECT_EQ(device.why, "");
}

TEST(CudaPlugin, IsLookedForBesideTheExecutableAndInTheLibFolderBesideIts) {
  const PluginPlaces places = UsualPluginPlaces();
  EXPECT_EQ(places.driver, "libcuda.so.1");
  ASSERT_EQ(places.files.size(), 2U);
  EXPECT_THAT(places.files[0], EndsWith("/libforetrain_cuda.so"));
  EXPECT_THAT(places.files[1], EndsWith("/../lib/libforetrain_cuda.so"));
}

}  // namespace
}  // namespace foretrain
