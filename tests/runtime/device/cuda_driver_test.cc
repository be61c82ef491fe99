#include "runtime/device/cuda_driver.h"

#include <gtest/gtest.h>

#include "tests/paths.h"

namespace foretrain {
namespace {

TEST(CudaDriver, TellsWhatTheDriverKnowsOfEachGpu) {
  const auto driver = AskCudaDriver(TestPlugin("driver_one"));
  ASSERT_TRUE(driver.has_value()) << driver.error().message;
  EXPECT_EQ(driver->version, 13000);
  ASSERT_EQ(driver->gpus.size(), 1U);
  const GpuFacts& gpu = driver->gpus.front();
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.capability_major, 9);
  EXPECT_EQ(gpu.capability_minor, 0);
  EXPECT_EQ(gpu.multiprocessors, 132);
  EXPECT_EQ(gpu.clock_mhz, 1980);
  EXPECT_EQ(gpu.l2_bytes, 60 << 20);
  EXPECT_EQ(gpu.memory_bytes, std::int64_t{141} << 30);
  EXPECT_EQ(gpu.memory_bus_bits, 0);  // not reported
}

TEST(CudaDriver, SaysWhyThereIsNone) {
  const auto missing = AskCudaDriver("libno_such_driver.so.1");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message,
            "there is no NVIDIA driver (libno_such_driver.so.1 was not found)");
  const auto stopped = AskCudaDriver(TestPlugin("driver_stopped"));
  ASSERT_FALSE(stopped.has_value());
  EXPECT_EQ(stopped.error().message,
            "the NVIDIA driver, start: no CUDA-capable device is detected");
  const auto other = AskCudaDriver("libc.so.6");
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().message, "libc.so.6 is no NVIDIA driver that foretrain knows");
}

TEST(CudaDriver, TellsWhetherGpusReadEachOther) {
  EXPECT_TRUE(GpusReadEachOther(2, TestPlugin("driver_two")));
  EXPECT_FALSE(GpusReadEachOther(3, TestPlugin("driver_two")));  // there is no third GPU
  EXPECT_FALSE(GpusReadEachOther(2, TestPlugin("driver_stopped")));
  EXPECT_FALSE(GpusReadEachOther(2, "/no/libcuda.so.1"));
}

TEST(CudaDriver, WritesVersionsAsPeopleDo) {
  EXPECT_EQ(CudaVersionText(13000), "13.0");
  EXPECT_EQ(CudaVersionText(12080), "12.8");
  EXPECT_EQ(CudaVersionText(0), "none");
}

}  // namespace
}  // namespace foretrain
