// Requests, and the bytes that PyTorch's allocator holds after each, worked out by hand from its
// rules.
#include "sim/memory/caching_allocator_model.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace foretrain {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(CachingAllocatorModel, ServesSmallRequestsFromSegmentsOfTwoMiB) {
  CachingAllocatorModel allocator;
  allocator.Allocate(1);
  EXPECT_EQ(allocator.allocated_bytes(), 512);
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
  allocator.Allocate(kMiB);  // 1 MiB fits behind 512 bytes
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kMiB);
  allocator.Allocate(kMiB);  // less is left
  EXPECT_EQ(allocator.reserved_bytes(), 4 * kMiB);
}

TEST(CachingAllocatorModel, ServesLargeRequestsFromSegmentsOfTwentyMiBOrTheirOwn) {
  CachingAllocatorModel allocator;
  allocator.Allocate(3 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 20 * kMiB);
  allocator.Allocate(9 * kMiB);  // 17 MiB were left
  EXPECT_EQ(allocator.reserved_bytes(), 20 * kMiB);
  allocator.Allocate(11 * kMiB + 1);  // 8 MiB are left: a segment of 12
  EXPECT_EQ(allocator.reserved_bytes(), 32 * kMiB);
}

// A block of 12 MiB that serves 11 keeps the last one: it is not more than 1 MiB.
TEST(CachingAllocatorModel, LeavesRestsOfLargeBlocksUpToOneMiB) {
  CachingAllocatorModel allocator;
  const int block = allocator.Allocate(12 * kMiB);
  allocator.Free(block);
  allocator.Allocate(11 * kMiB);
  EXPECT_EQ(allocator.allocated_bytes(), 12 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 12 * kMiB);
}

// Two free halves of a segment of 64 MiB do not serve 40 MiB; merged they do.
TEST(CachingAllocatorModel, JoinsFreeNeighbours) {
  CachingAllocatorModel allocator;
  allocator.Free(allocator.Allocate(64 * kMiB));
  const int first = allocator.Allocate(32 * kMiB);
  const int second = allocator.Allocate(32 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 64 * kMiB);
  allocator.Free(first);
  allocator.Free(second);
  allocator.Allocate(40 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 64 * kMiB);
}

// 24 MiB out of 64 leave 40, which another 64 do not fit into: 128 MiB held for 88 in use.
TEST(CachingAllocatorModel, FragmentsWhereSizesDoNotDivideEachOther) {
  CachingAllocatorModel allocator;
  allocator.Free(allocator.Allocate(64 * kMiB));
  allocator.Allocate(24 * kMiB);
  allocator.Allocate(64 * kMiB);
  EXPECT_EQ(allocator.allocated_bytes(), 88 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 128 * kMiB);
}

// A device of 100 MiB: a free segment of 64 is returned to make room for 80; blocks in use stay.
TEST(CachingAllocatorModel, GivesWholeSegmentsBackWhereTheDeviceIsFull) {
  CachingAllocatorModel allocator(100 * kMiB);
  allocator.Allocate(20 * kMiB);
  allocator.Free(allocator.Allocate(64 * kMiB));
  EXPECT_EQ(allocator.reserved_bytes(), 84 * kMiB);
  allocator.Allocate(80 * kMiB);
  EXPECT_EQ(allocator.reserved_bytes(), 100 * kMiB);
  EXPECT_EQ(allocator.peak_reserved_bytes(), 100 * kMiB);
}

// For any requests: everything in use is held. After all is freed, the same requests need no more
// than before.
TEST(CachingAllocatorModel, HoldsWhatIsInUseAndServesARepetitionFromWhatItHolds) {
  std::mt19937_64 random(3);
  CachingAllocatorModel allocator;
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 300; ++i)
    sizes.push_back(1 + static_cast<std::int64_t>(random() % (40 * kMiB)));
  std::int64_t after_first = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<int> blocks;
    for (const std::int64_t size : sizes) {
      blocks.push_back(allocator.Allocate(size));
      ASSERT_GE(allocator.reserved_bytes(), allocator.allocated_bytes());
    }
    for (const int block : blocks) allocator.Free(block);
    ASSERT_EQ(allocator.allocated_bytes(), 0);
    if (round == 0) after_first = allocator.reserved_bytes();
  }
  EXPECT_LE(after_first, allocator.reserved_bytes());
  EXPECT_EQ(allocator.peak_reserved_bytes(), allocator.reserved_bytes());
}

}  // namespace
}  // namespace foretrain
