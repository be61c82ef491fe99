#include "traces/metrics/classes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/traces/timelines.h"
#include "traces/save_spans.h"

namespace foretrain {
namespace {

//            0    10   20   30   40   50   60   70   80   90   100
// compute    |gemm|    |attn     |
// tp              |tp       |
// h2d                                 |copy     |
// host       |host                         |              |ho|
std::vector<Span> Picture() {
  return {
      SpanOf(Queue::kHost, OpClass::kHost, 0, 60),
      SpanOf(Queue::kHost, OpClass::kHost, 90, 95),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10),
      SpanOf(Queue::kCompute, OpClass::kAttention, 20, 40),
      SpanOf(Queue::kTp, OpClass::kTpComm, 10, 30),
      SpanOf(Queue::kH2d, OpClass::kCopy, 50, 70),
  };
}

TEST(RankClasses, SplitsAWindowIntoExclusiveClasses) {
  const std::vector<Span> spans = Picture();
  const ClassTimes times = RankClasses(spans).In(0, 100);
  EXPECT_EQ(times.compute_ns, 10 + 20);
  EXPECT_EQ(times.exposed_communication_ns, 10);  // 10..20; 20..30 overlaps with attention
  EXPECT_EQ(times.exposed_copy_ns, 20);           // 50..70
  EXPECT_EQ(times.host_ns, 10 + 5);               // 40..50 and 90..95
  EXPECT_EQ(times.idle_ns, 20 + 5);               // 70..90 and 95..100
  EXPECT_EQ(times.Sum(), 100);
}

TEST(RankClasses, CutsSpansToTheWindow) {
  const std::vector<Span> spans = Picture();
  const ClassTimes times = RankClasses(spans).In(15, 55);
  EXPECT_EQ(times.compute_ns, 20);
  EXPECT_EQ(times.exposed_communication_ns, 5);  // 15..20
  EXPECT_EQ(times.exposed_copy_ns, 5);           // 50..55
  EXPECT_EQ(times.host_ns, 10);                  // 40..50
  EXPECT_EQ(times.idle_ns, 0);
}

TEST(RankClasses, GivesExclusiveAndBusyTimeByOpClass) {
  const std::vector<Span> spans = Picture();
  const RankClasses classes(spans);
  const auto exclusive = classes.ExclusiveIn(0, 100);
  EXPECT_EQ(exclusive[static_cast<std::size_t>(OpClass::kGemm)], 10);
  EXPECT_EQ(exclusive[static_cast<std::size_t>(OpClass::kAttention)], 20);
  EXPECT_EQ(exclusive[static_cast<std::size_t>(OpClass::kTpComm)], 10);
  EXPECT_EQ(exclusive[static_cast<std::size_t>(OpClass::kHost)], 15);
  const auto busy = classes.BusyIn(0, 100);
  EXPECT_EQ(busy[static_cast<std::size_t>(OpClass::kTpComm)], 20);
  EXPECT_EQ(busy[static_cast<std::size_t>(OpClass::kHost)], 65);
}

TEST(RankClasses, OverlapIsTheHiddenShareOfCommunication) {
  const std::vector<Span> spans = Picture();
  const RankClasses classes(spans);
  EXPECT_EQ(classes.OverlapIn(0, 100), 0.5);   // 20..30 of 10..30
  EXPECT_EQ(classes.OverlapIn(20, 100), 1.0);  // 20..30 of 20..30
  EXPECT_EQ(classes.OverlapIn(40, 100), std::nullopt);
  EXPECT_EQ(RankClasses({}).OverlapIn(0, 100), std::nullopt);
}

TEST(RankClasses, OfNothingIsIdle) {
  const ClassTimes times = RankClasses({}).In(5, 12);
  EXPECT_EQ(times, (ClassTimes{.idle_ns = 7}));
  EXPECT_EQ(RankClasses({}).In(5, 5).Sum(), 0);
}

// For any timeline and window: integer classes sum to the window, and finer classes sum to them.
TEST(RankClasses, SumExactlyToAnyWindowOfRandomTimelines) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 200; ++round) {
    Timeline timeline = RandomTimeline(random, /*ranks=*/1, /*spans=*/300);
    const RankClasses classes(timeline.spans);
    for (int window = 0; window < 20; ++window) {
      const auto start = static_cast<std::int64_t>(random() % 40'000) - 1'000;
      const auto end = start + static_cast<std::int64_t>(random() % 20'000);
      const ClassTimes times = classes.In(start, end);
      ASSERT_EQ(times.Sum(), end - start);
      const auto exclusive = classes.ExclusiveIn(start, end);
      const auto sum_of = [&exclusive](OpClass first, OpClass last) {
        return std::accumulate(exclusive.begin() + static_cast<int>(first),
                               exclusive.begin() + static_cast<int>(last) + 1, std::int64_t{0});
      };
      ASSERT_EQ(sum_of(OpClass::kGemm, OpClass::kMemoryBound), times.compute_ns);
      ASSERT_EQ(sum_of(OpClass::kTpComm, OpClass::kPpComm), times.exposed_communication_ns);
      ASSERT_EQ(sum_of(OpClass::kCopy, OpClass::kCopy), times.exposed_copy_ns);
      ASSERT_EQ(sum_of(OpClass::kHost, OpClass::kHost), times.host_ns);
    }
  }
}

TEST(SpansOfRank, IsTheRunOfOneRank) {
  Timeline timeline;
  timeline.spans = {{.rank = 0}, {.rank = 2}, {.rank = 2}, {.rank = 5}};
  EXPECT_EQ(SpansOfRank(timeline, 2).size(), 2U);
  EXPECT_EQ(SpansOfRank(timeline, 2).data(), &timeline.spans[1]);
  EXPECT_TRUE(SpansOfRank(timeline, 1).empty());
}

TEST(RankClasses, LeaveOutCheckpoints) {
  const std::vector<Span> spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 10, 20),
                                   SaveSpan(SaveCopyOp(), 0, 3, 0, 10, 5),
                                   SaveSpan(SaveWriteOp(), 0, 3, 10, 90, 5)};
  const ClassTimes times = RankClasses(spans).In(0, 100);
  EXPECT_EQ(times.compute_ns, 10);
  EXPECT_EQ(times.host_ns, 0);
  EXPECT_EQ(times.idle_ns, 90);
}

}  // namespace
}  // namespace foretrain
