#include "runtime/device/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/device/memory_ledger.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/program_builder.h"

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
  (*arena)->Bear(3);  // in the same bytes
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

// Data on a disk has no address. It starts as zeros and is read back as written.
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
  ledger.Change(90, y, 1);  // from a thread that reports late
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

}  // namespace
}  // namespace foretrain
