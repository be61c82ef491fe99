#include "traces/metrics/op_totals.h"

#include <gtest/gtest.h>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

TEST(OpTotals, AreTheUnionOfAnOpsSpansOverAllQueues) {
  Timeline timeline;
  timeline.spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, /*op=*/4),
      SpanOf(Queue::kTp, OpClass::kTpComm, 5, 12, /*op=*/4),  // adds 10..12
      SpanOf(Queue::kCompute, OpClass::kGemm, 20, 25, /*op=*/4),
      SpanOf(Queue::kH2d, OpClass::kCopy, 21, 23, /*op=*/4),  // adds nothing
      SpanOf(Queue::kCompute, OpClass::kGemm, 30, 31),        // no op
  };
  timeline.spans[1].bytes = 100;
  timeline.spans[3].bytes = 11;
  SortTimeline(timeline);
  const auto totals = OpTotals(timeline);
  ASSERT_EQ(totals.size(), 1U);
  EXPECT_EQ(totals[0].op, 4);
  EXPECT_EQ(totals[0].busy_ns, 12 + 5);
  EXPECT_EQ(totals[0].start_ns, 0);
  EXPECT_EQ(totals[0].end_ns, 25);
  EXPECT_EQ(totals[0].spans, 4);
  EXPECT_EQ(totals[0].bytes, 111);
  EXPECT_EQ(totals[0].queue, Queue::kCompute);
}

TEST(OpTotals, LeaveLaunchesOutOfDeviceOpsAndKeepHostOps) {
  Timeline timeline;
  timeline.spans = {
      SpanOf(Queue::kHost, OpClass::kHost, 0, 3, /*op=*/4),
      SpanOf(Queue::kHost, OpClass::kHost, 3, 9, /*op=*/5),
      SpanOf(Queue::kCompute, OpClass::kGemm, 5, 10, /*op=*/4),
  };
  const auto totals = OpTotals(timeline);
  ASSERT_EQ(totals.size(), 2U);
  EXPECT_EQ(totals[0].busy_ns, 5);
  EXPECT_EQ(totals[0].spans, 1);
  EXPECT_EQ(totals[1].op, 5);
  EXPECT_EQ(totals[1].busy_ns, 6);
  EXPECT_EQ(totals[1].op_class, OpClass::kHost);
}

TEST(OpTotals, AreSortedByRankStepAndOp) {
  Timeline timeline;
  timeline.spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 1, /*op=*/9, /*rank=*/0, /*step=*/1),
      SpanOf(Queue::kCompute, OpClass::kGemm, 1, 3, /*op=*/8, /*rank=*/0, /*step=*/1),
      SpanOf(Queue::kCompute, OpClass::kGemm, 3, 6, /*op=*/9, /*rank=*/0, /*step=*/0),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 4, /*op=*/9, /*rank=*/1, /*step=*/1),
  };
  const auto totals = OpTotals(timeline);
  ASSERT_EQ(totals.size(), 4U);
  EXPECT_EQ(totals[0].busy_ns, 3);
  EXPECT_EQ(totals[1].busy_ns, 2);
  EXPECT_EQ(totals[2].busy_ns, 1);
  EXPECT_EQ(totals[3].rank, 1);
}

}  // namespace
}  // namespace foretrain
