#include "traces/metrics/range/range_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMs = 1'000'000;

Span Of(int rank, Queue queue, OpClass op_class, std::int64_t start_ms, std::int64_t end_ms,
        const InstructionKey& key) {
  Span span = SpanOf(queue, op_class, start_ms * kMs, end_ms * kMs, PackId(key, 0));
  span.rank = static_cast<std::int16_t>(rank);
  return span;
}

// Rank 0: "mlp" of layers 1 and 2 [0, 10) and [10, 30) ms, a send [30, 40) of 100 bytes.
// Rank 1: "mlp" of layer 1 [20, 40) ms.
Timeline TwoRanksOfMlps() {
  Timeline timeline;
  timeline.world = 2;
  const InstructionKey first{.pass = Pass::kForward, .block = 1};
  const InstructionKey second{.pass = Pass::kForward, .block = 2, .micro_batch = 1};
  const InstructionKey send{.kind = InstructionKind::kSend};
  timeline.spans = {Of(0, Queue::kCompute, OpClass::kGemm, 0, 10, first),
                    Of(0, Queue::kCompute, OpClass::kGemm, 10, 30, second),
                    Of(0, Queue::kSendNext, OpClass::kPpComm, 30, 40, send),
                    Of(1, Queue::kCompute, OpClass::kGemm, 20, 40, first)};
  timeline.spans[2].bytes = 100;
  for (const InstructionKey& key : {first, second}) {
    timeline.op_names[NameKey(PackId(key, 0))] = "mlp";
  }
  SortTimeline(timeline);
  return timeline;
}

TEST(RangeSums, CutSpansToTheRangeAndShareARowAmongLayers) {
  // [5, 35): 5 + 20 ms on rank 0, 15 on rank 1, and 5 of the send.
  const RangeSums sums = SumRange(TwoRanksOfMlps(), SumBy::kOp, {5 * kMs, 35 * kMs});
  ASSERT_EQ(sums.rows.size(), 2U);
  EXPECT_EQ(sums.rows[0].name, "mlp forward");
  EXPECT_EQ(sums.rows[0].spans, 3);
  EXPECT_EQ(sums.rows[0].busy_ns, 40 * kMs);
  EXPECT_EQ(sums.rows[1].name, "send");
  EXPECT_EQ(sums.rows[1].busy_ns, 5 * kMs);
  EXPECT_EQ(sums.rows[1].bytes, 100);
  EXPECT_EQ(sums.total.busy_ns, 45 * kMs);
  EXPECT_EQ(sums.ranks, 2);
}

TEST(RangeSums, CountBytesWhereATransferBegins) {
  const RangeSums sums = SumRange(TwoRanksOfMlps(), SumBy::kClass, {35 * kMs, 40 * kMs});
  ASSERT_EQ(sums.rows.size(), 2U);
  EXPECT_EQ(sums.total.bytes, 0);
  EXPECT_EQ(sums.rows[0].op_class, OpClass::kGemm);  // rows of equal time: by name
}

TEST(RangeSums, OfRanksFillTheRange) {
  const RangeSums sums = SumRange(TwoRanksOfMlps(), SumBy::kRank, {0, 50 * kMs});
  ASSERT_EQ(sums.rows.size(), 2U);
  EXPECT_EQ(sums.rows[0].classes, (ClassTimes{.compute_ns = 30 * kMs,
                                              .exposed_communication_ns = 10 * kMs,
                                              .idle_ns = 10 * kMs}));
  EXPECT_EQ(sums.rows[1].classes.idle_ns, 30 * kMs);
  EXPECT_EQ(sums.total.classes.Sum(), 100 * kMs);
}

TEST(RangeSums, CanBeOfOneRank) {
  const SummedRange range{0, 50 * kMs, 1};
  EXPECT_EQ(SumRange(TwoRanksOfMlps(), SumBy::kClass, range).total.busy_ns, 20 * kMs);
  EXPECT_EQ(SumRange(TwoRanksOfMlps(), SumBy::kRank, range).rows.size(), 1U);
  EXPECT_EQ(SumRange(TwoRanksOfMlps(), SumBy::kOp, {0, 50 * kMs, 7}).rows.size(), 0U);
}

TEST(RangeSums, PrintRowsAndTheirSum) {
  const std::string text = TableOf(SumRange(TwoRanksOfMlps(), SumBy::kOp, {0, 40 * kMs})).Text();
  // 50 of 2 x 40 ms are 62.5 %.
  for (const char* part : {"op ", "class", "of the range", "mlp forward", "50.0 ms", "16.7 ms",
                           "62.5 %", "100 B", "sum", "60.0 ms"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(TableOf(SumRange(TwoRanksOfMlps(), SumBy::kRank, {0, 40 * kMs})).Csv(),
              HasSubstr("rank,spans,compute,exposed comm,exposed copy,host,idle\n0,3,30.0 ms"));
}

TEST(RangeSums, HoldTheLargestNumberWhereAStoreIsDamaged) {
  Timeline timeline = TwoRanksOfMlps();
  for (Span& span : timeline.spans) {
    span.start_ns = 0;
    span.end_ns = std::numeric_limits<std::int64_t>::max();
  }
  SortTimeline(timeline);
  const SummedRange all{0, std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(SumRange(timeline, SumBy::kClass, all).total.busy_ns,
            std::numeric_limits<std::int64_t>::max());
}

TEST(RangeOfAStep, IsReadFromItsText) {
  const auto range = ParseRange("--window", "1.2ms..1.9ms", 5 * kMs, 9 * kMs);
  ASSERT_TRUE(range.has_value()) << range.error().message;
  EXPECT_EQ(range->start_ns, 6'200'000);
  EXPECT_EQ(range->end_ns, 6'900'000);
  const auto open = ParseRange("--window", "2ms..", 5 * kMs, 9 * kMs);
  ASSERT_TRUE(open.has_value()) << open.error().message;
  EXPECT_EQ(open->start_ns, 7 * kMs);
  EXPECT_EQ(open->end_ns, 9 * kMs);
  const auto whole = ParseRange("--window", "", 5 * kMs, 9 * kMs);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  EXPECT_EQ(whole->end_ns, 9 * kMs);
}

TEST(RangeOfAStep, ReadsBackFromItsTextToTheNanosecond) {
  const SummedRange range{1'234'567'891, 9'876'543'211};
  const auto back = ParseRange("--window", RangeText(range, 1'000'000'000), 1'000'000'000, 0);
  ASSERT_TRUE(back.has_value()) << back.error().message;
  EXPECT_EQ(back->start_ns, range.start_ns);
  EXPECT_EQ(back->end_ns, range.end_ns);
}

TEST(RangeOfAStep, RefusesWhatIsNoRange) {
  const std::int64_t last = std::numeric_limits<std::int64_t>::max();
  const auto refused = [](std::string_view text, std::int64_t start) {
    const auto range = ParseRange("--window", text, start, start);
    return range.has_value() ? std::string() : range.error().message;
  };
  EXPECT_THAT(refused("3ms", 0), HasSubstr("BEGIN..END"));
  EXPECT_THAT(refused("3ms..2ms", 0), HasSubstr("ends before it begins"));
  EXPECT_THAT(refused("3ms..3ms", 0), HasSubstr("ends before it begins"));
  EXPECT_THAT(refused("-3ms..2ms", 0), HasSubstr("--window"));
  EXPECT_THAT(refused("0..2 parsecs", 0), HasSubstr("--window"));
  EXPECT_THAT(refused("0..1s", last - 5), HasSubstr("last moment"));
}

}  // namespace
}  // namespace foretrain
