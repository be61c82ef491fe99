#include "traces/kernels/kernel_launch.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

KernelLaunch Of(std::int32_t threads, std::int32_t registers, std::int32_t shared_bytes = 0) {
  return {.grid = {1000, 1, 1},
          .block = {threads, 1, 1},
          .registers = registers,
          .dynamic_shared_bytes = shared_bytes};
}

void Expect(const KernelLaunch& launch, int capability, int blocks, double share,
            OccupancyLimit limit) {
  const auto occupancy = TheoreticalOccupancy(launch, capability);
  ASSERT_TRUE(occupancy.has_value());
  EXPECT_EQ(occupancy->blocks, blocks);
  EXPECT_DOUBLE_EQ(occupancy->share, share);
  EXPECT_EQ(occupancy->limit, limit);
}

// CUDA C++ Best Practices Guide, "Calculating Occupancy": on capability 7.0, 37 registers a thread
// give 12 blocks of 128 threads (75 %), but only 4 blocks of 320 (63 %).
TEST(Occupancy, IsThatOfTheBestPracticesGuide) {
  Expect(Of(128, 37), 70, 12, 0.75, OccupancyLimit::kRegisters);
  Expect(Of(320, 37), 70, 4, 0.625, OccupancyLimit::kRegisters);
}

TEST(Occupancy, IsLimitedByEachResource) {
  // 64 warps hold 8 blocks of 8.
  Expect(Of(256, 32), 80, 8, 1.0, OccupancyLimit::kWarps);
  // 48 warps hold one block of 32.
  Expect(Of(1024, 40), 86, 1, 32.0 / 48, OccupancyLimit::kWarps);
  // 16 blocks of one warp, of 32 warps.
  Expect(Of(32, 16), 75, 16, 0.5, OccupancyLimit::kBlocks);
  // 255 * 32 registers round up to 8,192: two warps a partition, 8 in all.
  Expect(Of(128, 255), 90, 2, 8.0 / 64, OccupancyLimit::kRegisters);
  // 51 KiB and 1 KiB of the driver: 228 / 52 = 4 blocks of 4 warps.
  Expect(Of(128, 32, 51 * 1024), 90, 4, 16.0 / 64, OccupancyLimit::kSharedMemory);
  // Before 8.0 the driver adds nothing: 64 / 32 = 2 blocks of 4 warps, of 32.
  Expect(Of(128, 32, 32 * 1024), 75, 2, 8.0 / 32, OccupancyLimit::kSharedMemory);
}

// 33 * 32 = 1,056 registers round up to 1,280: 12 warps a partition.
TEST(Occupancy, RoundsRegistersOfAWarpUp) {
  Expect(Of(64, 33), 90, 24, 48.0 / 64, OccupancyLimit::kRegisters);
}

TEST(Occupancy, OfAnImpossibleLaunchIsZero) {
  Expect(Of(1024, 255), 90, 0, 0.0, OccupancyLimit::kRegisters);
  Expect(Of(32, 32, 300 * 1024), 90, 0, 0.0, OccupancyLimit::kSharedMemory);
}

TEST(Occupancy, IsUnknownWithoutLaunchOrCapability) {
  EXPECT_FALSE(TheoreticalOccupancy({}, 90).has_value());
  EXPECT_FALSE(TheoreticalOccupancy(Of(128, 32), 0).has_value());
  EXPECT_FALSE(TheoreticalOccupancy(Of(128, 32), 61).has_value());
  EXPECT_FALSE(TheoreticalOccupancy(Of(1025, 32), 90).has_value());
  EXPECT_FALSE(TheoreticalOccupancy({.grid = {1, 1, 1}, .block = {1 << 30, 1 << 30, 1 << 30}}, 90)
                   .has_value());
}

TEST(KernelLaunch, IsDescribedInOneLine) {
  const KernelLaunch launch{.grid = {64, 2, 1},
                            .block = {128, 1, 1},
                            .registers = 168,
                            .static_shared_bytes = 1024,
                            .dynamic_shared_bytes = 48 * 1024 - 1024};
  EXPECT_EQ(Describe(launch), "grid 64 x 2, block 128, 168 registers, 48.0 KiB shared");
  EXPECT_EQ(Describe(Of(32, 8)), "grid 1000, block 32, 8 registers");
  EXPECT_EQ(Describe(KernelLaunch{}), "");
  EXPECT_EQ(
      Describe(Occupancy{.blocks = 2, .share = 0.125, .limit = OccupancyLimit::kSharedMemory}),
      "12.5 % (shared memory)");
}

}  // namespace
}  // namespace foretrain
