#include "traces/span_sums.h"

#include <gtest/gtest.h>

#include <numeric>

namespace foretrain {
namespace {

// `count` spans of 10 ns, one every 20 ns, on the compute queue of rank 0.
SpanSums Regular(int count) {
  SpanSummer summer(count);
  for (int i = 0; i < count; ++i) {
    summer.Add(0, Queue::kCompute, 20 * i, 20 * i + 10,
               i % 2 == 0 ? Work::kForward : Work::kBackward);
  }
  return summer.Take();
}

TEST(SpanSums, AddUpSpansInBlocksOfThirtyTwo) {
  const SpanSums sums = Regular(80);
  ASSERT_EQ(sums.tracks.size(), 1U);
  const std::vector<SpanBlock>& blocks = sums.tracks[0].blocks;
  ASSERT_EQ(blocks.size(), 3U);  // 32 + 32 + 16
  EXPECT_EQ(blocks[1].start_ns, 32 * 20);
  EXPECT_EQ(blocks[1].end_ns, 63 * 20 + 10);
  EXPECT_EQ(blocks[2].spans, 16);
  EXPECT_EQ(blocks[2].busy_ns[static_cast<std::size_t>(Work::kForward)], 80.0F);
  EXPECT_EQ(blocks[2].busy_ns[static_cast<std::size_t>(Work::kBackward)], 80.0F);
  EXPECT_EQ(sums.Spans(), 80);
}

TEST(SpanSums, EndABlockWhereALongGapFollows) {
  SpanSummer summer(100);
  for (int i = 0; i < 10; ++i) summer.Add(0, Queue::kCompute, i * 10, i * 10 + 10, Work::kForward);
  // 100 ns of spans, then a gap of 101 ns.
  for (int i = 0; i < 10; ++i) {
    summer.Add(0, Queue::kCompute, 201 + i * 10, 211 + i * 10, Work::kForward);
  }
  const SpanSums sums = summer.Take();
  ASSERT_EQ(sums.tracks[0].blocks.size(), 2U);
  EXPECT_EQ(sums.tracks[0].blocks[0].end_ns, 100);
  EXPECT_EQ(sums.tracks[0].blocks[1].start_ns, 201);
}

TEST(SpanSums, HaveNoMoreBlocksForAHundredMillionSpansThanForTenMillion) {
  // 333 spans a block: 100 M / 300,000.
  SpanSummer summer(100'000'000);
  for (int i = 0; i < 1000; ++i) summer.Add(0, Queue::kCompute, i, i + 1, Work::kForward);
  EXPECT_EQ(summer.Take().tracks[0].blocks.size(), 4U);
}

TEST(SpanSums, CountTheSpansOfAStretch) {
  const SpanSums sums = Regular(96);
  EXPECT_EQ(sums.SpansIn(-1e9, 1e9), 96);
  EXPECT_EQ(sums.SpansIn(5000, 1e9), 0);
  // The first block lasts 630 ns: a third of it counts.
  EXPECT_EQ(sums.SpansIn(0, 210), 11);  // 10.7
}

MemorySample Sample(int rank, std::int64_t time_ns, std::int64_t bytes,
                    Category category = Category::kActivations) {
  return {.time_ns = time_ns,
          .bytes = bytes,
          .rank = static_cast<std::int16_t>(rank),
          .category = category};
}

TEST(SpanSums, SayWhatIsLiveNowAndThen) {
  SpanSummer summer(1);
  for (int rank = 0; rank < 2; ++rank) {
    summer.Add(Sample(rank, 0, 7, Category::kParameters));
    for (int i = 1; i < 5000; ++i) summer.Add(Sample(rank, i, i));
  }
  const SpanSums sums = summer.Take();
  EXPECT_TRUE(sums.LevelsBefore(0, 1000).empty());
  // Taken after 2,000 samples, at times 0 to 1999.
  const auto levels = sums.LevelsBefore(1, 3000);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[0].time_ns, 1999);
  std::int64_t bytes = 0;
  for (const MemorySample& level : levels) {
    EXPECT_EQ(level.rank, 1);
    bytes += level.bytes;
  }
  EXPECT_EQ(bytes, 7 + 1999);
  EXPECT_TRUE(sums.LevelsBefore(2, 3000).empty());
}

TEST(PackedSums, ComeBackAsTheyWere) {
  SpanSummer summer(100);
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 2500; ++i) summer.Add(Sample(rank, i, 100 + i));
  }
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 100; ++i) summer.Add(rank, Queue::kTp, i * 7, i * 7 + 3, Work::kCollective);
    for (int i = 0; i < 70; ++i) summer.Add(rank, Queue::kCpu, i * 9, i * 9 + 9, Work::kUpdate);
  }
  const SpanSums sums = summer.Take();
  const auto back = UnpackSums(PackSums(sums));
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->tracks, sums.tracks);
  ASSERT_EQ(back->levels.size(), sums.levels.size());
  for (std::size_t i = 0; i < sums.levels.size(); ++i) {
    EXPECT_EQ(back->levels[i].time_ns, sums.levels[i].time_ns);
    EXPECT_EQ(back->levels[i].bytes, sums.levels[i].bytes);
    EXPECT_EQ(back->levels[i].rank, sums.levels[i].rank);
  }
}

TEST(PackedSums, NoticeEveryFlippedBitAndEveryCut) {
  const std::string bytes = PackSums(Regular(100));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto read = UnpackSums(damaged);
    ASSERT_FALSE(read.has_value()) << bit;
    EXPECT_EQ(read.error().code, ErrorCode::kCorruptInput);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(UnpackSums(bytes.substr(0, size)).has_value()) << size;
  }
}

}  // namespace
}  // namespace foretrain
