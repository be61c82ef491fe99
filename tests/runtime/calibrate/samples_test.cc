#include "runtime/calibrate/samples.h"

#include <gtest/gtest.h>

namespace foretrain {
namespace {

ProfilePoint Point(OpKind kind, std::int64_t elements, int concurrency = 1) {
  Op op;
  op.kind = kind;
  op.shape.elements = elements;
  return PointOf(op, 1, 1, concurrency);
}

Span Compute(std::int64_t start_ns, std::int64_t end_ns, OpId op, int step = 0,
             std::int64_t ready_ns = 0) {
  Span span;
  span.start_ns = start_ns;
  span.end_ns = end_ns;
  span.ready_ns = ready_ns;
  span.op = op;
  span.step = step;
  return span;
}

const SampleTable::Series& SeriesAt(const SampleTable& table, std::int32_t number) {
  return table.series()[static_cast<std::size_t>(number)];
}

// Samples of 1 to 11 s. The nearest ranks at 0.1, 0.5 and 0.9 of the range are 2, 6 and 10 s.
TEST(Spread, TakesOrderStatistics) {
  Durations durations;
  for (std::int64_t s = 11; s >= 1; --s) durations.push_back(s * 1'000'000'000);
  const Spread spread = SpreadOf(durations);
  EXPECT_DOUBLE_EQ(spread.p10, 2);
  EXPECT_DOUBLE_EQ(spread.median, 6);
  EXPECT_DOUBLE_EQ(spread.p90, 10);
  EXPECT_DOUBLE_EQ(spread.mean, 6);
  EXPECT_EQ(spread.samples, 11);
  EXPECT_EQ(SpreadOf({}).samples, 0);
}

TEST(SampleTable, GivesOneSeriesToWhatIsMeasuredTheSame) {
  SampleTable table;
  const std::int32_t a = table.SeriesOf(Point(OpKind::kAdamW, 64));
  EXPECT_EQ(table.SeriesOf(Point(OpKind::kAdamW, 64)), a);
  EXPECT_NE(table.SeriesOf(Point(OpKind::kAdamW, 128)), a);
  EXPECT_NE(table.SeriesOf(Point(OpKind::kSquaredNorm, 64)), a);
  EXPECT_NE(table.SeriesOf(Point(OpKind::kAdamW, 64, 2)), a);
  EXPECT_EQ(table.series().size(), 4U);
}

// The medians are x 10 and y 20, so a passage should take 30. The three take 30, 36 and 60: ratios
// of 1, 1.2 and 2 with equal weights.
TEST(SampleTable, StretchIsTheMedianPassageOverItsMedians) {
  SampleTable table;
  const std::int32_t x = table.SeriesOf(Point(OpKind::kAdamW, 1));
  const std::int32_t y = table.SeriesOf(Point(OpKind::kAdamW, 2));
  table.AddPassage(1, {{x, 10}, {y, 20}});
  table.AddPassage(1, {{x, 10}, {y, 26}});
  table.AddPassage(1, {{x, 41}, {y, 19}});
  EXPECT_DOUBLE_EQ(table.Stretch(1), 1.2);
  EXPECT_DOUBLE_EQ(table.Stretch(2), 1.0) << "nothing was timed at 2";
}

TEST(AddSpans, TakesTheLongestMemberOfACallFromItsLastArrival) {
  SampleTable table;
  const std::int32_t sum = table.SeriesOf(Point(OpKind::kAllReduce, 8, 2));
  SeriesByOp series(2);
  series[0][5] = sum;
  series[1][5] = sum;
  std::vector<Span> spans;
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 0; step < 2; ++step) {
      // Both members start when the last one arrives. Rank 1 ends 3 ns later in step 0, rank 0 in
      // step 1.
      const std::int64_t start = 100 + 1000 * step;
      Span span = Compute(start, start + 10 + (rank != step ? 3 : 0), 5, step, start - 50);
      span.rank = static_cast<std::int16_t>(rank);
      span.queue = Queue::kReduce;
      span.op_class = OpClass::kDpComm;
      spans.push_back(span);
    }
  }
  AddSpans(spans, 2, series, table);
  EXPECT_EQ(SeriesAt(table, sum).durations, (Durations{13, 13}));
  EXPECT_TRUE(table.overheads().empty());
}

// Three ops on one queue. The second was ready while the first ran. The third became ready 20 us
// after the second ended, long enough for the queue to sleep.
TEST(AddSpans, TellsGapsFromWakes) {
  SampleTable table;
  const std::int32_t op = table.SeriesOf(Point(OpKind::kAdamW, 8));
  SeriesByOp series(1);
  series[0][1] = op;
  AddSpans({Compute(0, 1000, 1, 0, 0), Compute(1040, 2000, 1, 0, 500),
            Compute(27'000, 28'000, 1, 0, 22'000)},
           1, series, table);
  EXPECT_EQ(SeriesAt(table, op).durations, (Durations{1000, 960, 1000}));
  EXPECT_EQ(table.overheads().at({OverheadKind::kGap, 1}), (Durations{40}));
  EXPECT_EQ(table.overheads().at({OverheadKind::kWake, 1}), (Durations{5000}));
}

TEST(AddSpans, KeepsHostReadsApart) {
  SampleTable table;
  Span read = Compute(10, 17, 3);
  read.queue = Queue::kHost;
  read.op_class = OpClass::kHost;
  AddSpans({read}, 1, SeriesByOp(1), table);
  EXPECT_EQ(table.host_reads(), (Durations{7}));
}

}  // namespace
}  // namespace foretrain
