#include "traces/metrics/data_wait.h"

#include <gtest/gtest.h>

#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

const OpId kLoad = PackId({.kind = InstructionKind::kLoadBatch, .pass = Pass::kForward}, 0);
const OpId kWait =
    PackId({.kind = InstructionKind::kLoadBatch, .pass = Pass::kForward}, kDataWaitOp);

TEST(DataWait, IsKnownByItsOp) {
  EXPECT_TRUE(IsDataWait(kWait));
  EXPECT_FALSE(IsDataWait(kLoad));
  EXPECT_FALSE(IsDataWait(kNoOp));
  EXPECT_FALSE(IsDataWait(PackId({.kind = InstructionKind::kBlock}, kDataWaitOp)));
}

// A wait 0..40, of which 10..25 is hidden by compute: 25 ns exposed of a window of 100. Another
// step's wait does not count.
TEST(DataWait, IsExposedWhereTheDeviceIsIdle) {
  Timeline timeline;
  timeline.world = 1;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 10, 25),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 50, 90),
                    SpanOf(Queue::kH2d, OpClass::kHost, 0, 40, kWait),
                    SpanOf(Queue::kH2d, OpClass::kCopy, 40, 45, kLoad),
                    SpanOf(Queue::kH2d, OpClass::kHost, 120, 130, kWait)};
  timeline.steps = {{.start_ns = 0, .end_ns = 100, .step = 3},
                    {.start_ns = 100, .end_ns = 200, .step = 4}};
  SortTimeline(timeline);
  const DataWait wait = DataWaitOf(timeline, 3);
  EXPECT_EQ(wait.waited_ns, 40);
  EXPECT_EQ(wait.exposed_ns, 25);
  EXPECT_DOUBLE_EQ(wait.ExposedShare(), 0.25);
  EXPECT_EQ(DataWaitOf(timeline, 4).waited_ns, 10);
  EXPECT_EQ(DataWaitOf(timeline, 5).window_ns, 0);
  EXPECT_EQ(DataWaitOf(timeline, 5).ExposedShare(), 0);
}

}  // namespace
}  // namespace foretrain
