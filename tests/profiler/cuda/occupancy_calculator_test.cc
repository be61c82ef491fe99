// Theoretical occupancy against NVIDIA's own calculator, the header cuda_occupancy.h of the
// toolkit.
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_CUDA
#include <cuda_occupancy.h>

#include "traces/kernels/kernel_launch.h"

namespace foretrain {
namespace {

// cudaDeviceProp of a GPU of each capability, from the table "Technical Specifications per Compute
// Capability" of the CUDA C++ Programming Guide: threads and shared memory of a multiprocessor, and
// the maximum shared memory of a block.
struct Gpu {
  int capability;
  int threads;
  std::size_t shared_kib, block_shared_kib;
};
constexpr Gpu kGpus[] = {{70, 2048, 96, 96},    {75, 1024, 64, 64},  {80, 2048, 164, 163},
                         {86, 1536, 100, 99},   {89, 1536, 100, 99}, {90, 2048, 228, 227},
                         {100, 2048, 228, 227}, {120, 1536, 100, 99}};

cudaOccDeviceProp PropertiesOf(const Gpu& gpu) {
  cudaOccDeviceProp properties;
  properties.computeMajor = gpu.capability / 10;
  properties.computeMinor = gpu.capability % 10;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiprocessor = gpu.threads;
  properties.regsPerBlock = properties.regsPerMultiprocessor = 65'536;
  properties.warpSize = 32;
  properties.sharedMemPerBlock = 48 * 1024;
  properties.sharedMemPerMultiprocessor = gpu.shared_kib * 1024;
  properties.sharedMemPerBlockOptin = gpu.block_shared_kib * 1024;
  properties.reservedSharedMemPerBlock = gpu.capability >= 80 ? 1024 : 0;
  properties.numSms = 100;
  return properties;
}

TEST(OccupancyCalculator, AgreesForAllLaunchesThatCudaAllows) {
  int compared = 0;
  for (const Gpu& gpu : kGpus) {
    const cudaOccDeviceProp properties = PropertiesOf(gpu);
    for (int threads = 32; threads <= 1024; threads += 96) {
      for (int registers = 8; registers <= 255; registers += 13) {
        for (std::size_t shared = 0; shared <= gpu.block_shared_kib * 1024; shared += 7'777) {
          cudaOccFuncAttributes attributes;
          attributes.maxThreadsPerBlock = 1024;
          attributes.numRegs = registers;
          attributes.sharedSizeBytes = 64;
          attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          attributes.maxDynamicSharedSizeBytes = gpu.block_shared_kib * 1024;
          attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
          cudaOccDeviceState state;
          state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
          cudaOccResult result{};
          if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state,
                                                      threads, shared) != CUDA_OCC_SUCCESS ||
              result.activeBlocksPerMultiprocessor == 0) {
            continue;
          }
          const KernelLaunch launch{.grid = {1, 1, 1},
                                    .block = {threads, 1, 1},
                                    .registers = registers,
                                    .static_shared_bytes = 64,
                                    .dynamic_shared_bytes = static_cast<std::int32_t>(shared)};
          const auto occupancy = TheoreticalOccupancy(launch, gpu.capability);
          ASSERT_TRUE(occupancy.has_value());
          ASSERT_EQ(occupancy->blocks, result.activeBlocksPerMultiprocessor)
              << "capability " << gpu.capability << ", " << Describe(launch);
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 5'000);
}

}  // namespace
}  // namespace foretrain
#else
TEST(OccupancyCalculator, IsPartOfTheToolkit) {
  GTEST_SKIP() << "this build found no CUDA toolkit: configure where it is";
}
#endif
