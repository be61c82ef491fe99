#include "runtime/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "mock_device.h"
#include "program_builder.h"
#include "runtime/caching_allocator.h"
#include "runtime/memory_ledger.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;

float FloatAt(const std::byte* at) {
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// w persists; x lives in ops 0 and 1, y in 1 and 2, z in 2 and 3: x and z share memory.
std::shared_ptr<const Program> FourBuffers() {
  ProgramBuilder builder(1);
  const auto w = builder.Buffer(0, 100, true, Category::kParameters);
  const auto x = builder.Buffer(0, 64);
  const auto y = builder.Buffer(0, 64);
  const auto z = builder.Buffer(0, 64);
  builder.Opaque(0, Queue::kCompute, 0, {{w, kR}, {x, kW}});
  builder.Opaque(0, Queue::kCompute, 0, {{x, kR}, {y, kW}});
  builder.Opaque(0, Queue::kCompute, 0, {{y, kR}, {z, kW}});
  builder.Opaque(0, Queue::kCompute, 0, {{z, kR}});
  return builder.Take();
}

TEST(RankArena, PutsBuffersWhereTheProgramSaysAndClearsState) {
  const auto program = FourBuffers();
  auto arena = RankArena::Make(program->ranks[0], MockDeviceApi(), {});
  ASSERT_TRUE(arena.has_value()) << arena.error().message;
  const RankProgram& rank = program->ranks[0];
  for (int buffer = 0; buffer < 4; ++buffer) {
    EXPECT_EQ((*arena)->BufferAt(buffer) - (*arena)->BufferAt(0),
              rank.buffers[static_cast<std::size_t>(buffer)].offset - rank.buffers[0].offset);
  }
  EXPECT_EQ((*arena)->BufferAt(1), (*arena)->BufferAt(3));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(FloatAt((*arena)->BufferAt(0) + 4 * i), 0.0F);
  EXPECT_EQ((*arena)->At({2, 16, 4}), (*arena)->BufferAt(2) + 16);
  EXPECT_EQ((*arena)->At({2, 16, 0}), nullptr) << "an operand that is left out";
  // 400 bytes of state and two of 256, each aligned to 256.
  EXPECT_EQ((*arena)->bytes(Space::kDevice), 512 + 256 + 256);
}

TEST(RankArena, FillsTheDeadWithSignallingNans) {
  const auto program = FourBuffers();
  auto arena = RankArena::Make(program->ranks[0], MockDeviceApi(), {.poison = true});
  ASSERT_TRUE(arena.has_value());
  (*arena)->Bear(1);
  std::byte* const x = (*arena)->BufferAt(1);
  EXPECT_TRUE(std::isnan(FloatAt(x))) << "born with nothing in it";
  std::memset(x, 0, 256);
  (*arena)->Bury(1);
  (*arena)->Bear(3);  // in the same place
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(std::isnan(FloatAt(x + 4 * i)));
}

#if defined(__SANITIZE_ADDRESS__)
TEST(RankArenaDeathTest, TrapsOnAUseOfTheDead) {
  const auto program = FourBuffers();
  auto arena = RankArena::Make(program->ranks[0], MockDeviceApi(), {.poison = true});
  ASSERT_TRUE(arena.has_value());
  (*arena)->Bear(2);
  volatile std::byte* const y = (*arena)->BufferAt(2);
  EXPECT_TRUE(y[0] == y[4]);
  (*arena)->Bury(2);
  EXPECT_DEATH((void)y[0], "use-after-poison");
}
#endif

TEST(RankArena, SaysWhatItAskedForWhenItIsRefused) {
  const auto program = FourBuffers();
  Mock().Reset();
  Mock().fail_at = 0;
  auto arena = RankArena::Make(program->ranks[0], MockDeviceApi(), {});
  Mock().Reset();
  ASSERT_FALSE(arena.has_value());
  EXPECT_EQ(arena.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(arena.error().message,
              HasSubstr("rank 0: the arena of 1.00 KiB (activations 512 B, parameters 400 B) was "
                        "refused: allocate 1024 bytes: the mock was told to fail"));
}

TEST(RankArena, RefusesMoreThanTheHostHas) {
  Program program = *FourBuffers();
  program.ranks[0].arena_bytes[static_cast<std::size_t>(Space::kPinned)] = std::int64_t{1} << 50;
  auto checked = CheckMemory(program, MockDeviceApi(), {{0, 0}}, 0);
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(checked.error().message,
              HasSubstr("1 ranks keep 1.00 PiB in the host's memory, free are "));
}

// What lies on a disk has no address; it is zero, and reads back what was written.
TEST(RankArena, KeepsStateOnADisk) {
  Program program = *FourBuffers();
  Buffer& w = program.ranks[0].buffers[0];
  w.space = Space::kNvme;
  Link(program);
  const RankProgram& rank = program.ranks[0];
  auto arena = RankArena::Make(rank, MockDeviceApi(), {.nvme = {.folder = testing::TempDir()}});
  ASSERT_TRUE(arena.has_value()) << arena.error().message;
  EXPECT_EQ((*arena)->BufferAt(0), nullptr);
  EXPECT_EQ((*arena)->At({0, 0, 400}), nullptr);
  EXPECT_EQ((*arena)->FileOffset({0, 0, 400}), 0);
  EXPECT_EQ((*arena)->FileOffset({1, 0, 400}), -1);
  std::vector<float> values(100, 1.0F);
  ASSERT_TRUE((*arena)->ReadState({0, 0, 400}, values.data()).has_value());
  EXPECT_THAT(values, testing::Each(0.0F));
  values[99] = 7.0F;
  ASSERT_TRUE((*arena)->WriteState({0, 0, 400}, values.data()).has_value());
  std::vector<float> again(100, 1.0F);
  ASSERT_TRUE((*arena)->ReadState({0, 0, 400}, again.data()).has_value());
  EXPECT_EQ(again, values);
}

TEST(MemoryLedger, KeepsSamplesInOrderAndTheirPeak) {
  const auto program = FourBuffers();
  MemoryLedger ledger(program->ranks[0]);
  const std::vector<std::int32_t> x = {1}, y = {2};
  ledger.Change(100, x, 1);
  ledger.Change(90, y, 1);  // a thread that was late to tell
  ledger.Change(120, x, -1);
  ledger.Change(130, {}, 1);
  std::vector<MemorySample> samples;
  ledger.Drain(samples);
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0].category, Category::kParameters);
  EXPECT_EQ(samples[2].time_ns, 100);
  EXPECT_EQ(samples[2].bytes, 512);
  EXPECT_EQ(samples[3].bytes, 256);
  EXPECT_EQ(ledger.Peak(Space::kDevice), 400 + 512);
  EXPECT_EQ(ledger.Peak(Space::kHost), 0);
}

TEST(CachingAllocator, ServesARequestFromWhatWasGivenBack) {
  CachingAllocator allocator(MockDeviceApi(), 0);
  const std::byte* first = nullptr;
  {
    auto block = allocator.Allocate(1000);
    ASSERT_TRUE(block.has_value());
    EXPECT_EQ(block->bytes(), 1024);  // the next multiple of 512
    first = block->data();
    EXPECT_EQ(allocator.Statistics().live_bytes, 1024);
  }
  EXPECT_EQ(allocator.Statistics().cached_bytes, 1024);
  auto again = allocator.Allocate(600);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->data(), first);
  auto small = allocator.Allocate(10);  // a block more than twice the size would be wasted on it
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->bytes(), 512);
  const AllocatorStatistics statistics = allocator.Statistics();
  EXPECT_EQ(statistics.requests, 3);
  EXPECT_EQ(statistics.hits, 1);
  EXPECT_EQ(statistics.live_bytes, 1536);
  EXPECT_EQ(statistics.peak_bytes, 1536);
}

TEST(CachingAllocator, ReleasesItsCacheBeforeItRefuses) {
  Mock().Reset();
  CachingAllocator allocator(MockDeviceApi(), 0, 4096);
  { auto block = allocator.Allocate(3000); }
  EXPECT_EQ(allocator.Statistics().cached_bytes, 3072);
  auto block = allocator.Allocate(512);  // the cached one is too large for it
  ASSERT_TRUE(block.has_value());
  auto large = allocator.Allocate(3584);  // fits the limit once the cache is gone
  ASSERT_TRUE(large.has_value()) << large.error().message;
  EXPECT_EQ(allocator.Statistics().cached_bytes, 0);
  auto more = allocator.Allocate(512);
  ASSERT_FALSE(more.has_value());
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(more.error().message, HasSubstr("live 4.00 KiB, limit 4.00 KiB"));
}

TEST(CachingAllocator, TriesAgainWithoutItsCacheWhenTheDeviceRefuses) {
  Mock().Reset();
  CachingAllocator allocator(MockDeviceApi(), 0);
  { auto block = allocator.Allocate(100'000); }
  Mock().calls = 0;
  Mock().fail_at = 0;
  auto block = allocator.Allocate(300'000);
  EXPECT_TRUE(block.has_value());
  EXPECT_EQ(allocator.Statistics().cached_bytes, 0);
  Mock().Reset();
}

TEST(CachingAllocator, GivesEverythingBackAtItsEnd) {
  Mock().Reset();
  const std::int64_t before = Mock().live_allocations;
  {
    CachingAllocator allocator(MockDeviceApi(), 0);
    auto a = allocator.Allocate(5);
    auto b = allocator.Allocate(3 << 20);
    auto none = allocator.Allocate(0);
    ASSERT_TRUE(none.has_value());
    EXPECT_EQ(none->data(), nullptr);
    EXPECT_EQ(b->bytes(), 4 << 20);  // 2 MiB apart from 1 MiB on
    { auto c = allocator.Allocate(700); }
    allocator.Trim();
    EXPECT_EQ(allocator.Statistics().cached_bytes, 0);
  }
  EXPECT_EQ(Mock().live_allocations, before);
}

}  // namespace
}  // namespace foretrain
