#include "profiler/device_spans.h"

#include <gtest/gtest.h>

#include <vector>

namespace foretrain {
namespace {

const OpId kOp = PackId({.kind = InstructionKind::kBlock, .block = 3}, 5);

Span Host(std::int32_t step, OpClass op_class = OpClass::kGemm) {
  return {.start_ns = 100,
          .end_ns = 900,
          .op = kOp,
          .bytes = 64,
          .ready_ns = 90,
          .step = step,
          .rank = 1,
          .queue = Queue::kCompute,
          .op_class = op_class};
}

OwnedActivity Work(std::int32_t step, std::int64_t start_ns, std::int64_t end_ns,
                   FtActivityKind kind = FT_ACTIVITY_KERNEL) {
  OwnedActivity owned;
  owned.activity.start_ns = start_ns;
  owned.activity.end_ns = end_ns;
  owned.activity.kind = kind;
  owned.owner = ActivityOwner{kOp, step, 1};
  return owned;
}

std::vector<Span> All(DeviceSpans& spans) {
  std::vector<Span> out;
  spans.ReleaseAll(out);
  return out;
}

// Kernels at 200 to 300, 250 to 320 and 400 to 450: the union is 200 to 320 and 400 to 450.
TEST(DeviceSpans, GiveAnOpTheUnionOfItsKernels) {
  DeviceSpans spans({});
  spans.AddHost(Host(0), 0);
  spans.AddActivity(Work(0, 400, 450));
  spans.AddActivity(Work(0, 200, 300));
  spans.AddActivity(Work(0, 250, 320));
  const auto out = All(spans);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].start_ns, 200);
  EXPECT_EQ(out[0].end_ns, 320);
  EXPECT_EQ(out[1].start_ns, 400);
  EXPECT_EQ(out[1].end_ns, 450);
  EXPECT_EQ(out[0].bytes + out[1].bytes, 64);
  EXPECT_EQ(out[0].op, kOp);
  EXPECT_EQ(out[1].ready_ns, 90);
  EXPECT_EQ(out[1].queue, Queue::kCompute);
}

TEST(DeviceSpans, KeepACollectiveInOnePiece) {
  DeviceSpans spans({});
  spans.AddHost(Host(0, OpClass::kDpComm), 0);
  spans.AddActivity(Work(0, 400, 450));
  spans.AddActivity(Work(0, 200, 300));
  const auto out = All(spans);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].start_ns, 200);
  EXPECT_EQ(out[0].end_ns, 450);
}

TEST(DeviceSpans, PutLaunchesOnTheHostsQueue) {
  DeviceSpans spans({});
  spans.AddHost(Host(0), 0);
  spans.AddActivity(Work(0, 110, 115, FT_ACTIVITY_LAUNCH));
  spans.AddActivity(Work(0, 120, 128, FT_ACTIVITY_LAUNCH));
  spans.AddActivity(Work(0, 200, 300));
  const auto out = All(spans);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[1].queue, Queue::kHost);
  EXPECT_EQ(out[1].op_class, OpClass::kHost);
  EXPECT_EQ(out[1].start_ns, 110);
  EXPECT_EQ(out[1].end_ns, 128);
  EXPECT_EQ(out[1].bytes, 0);
}

TEST(DeviceSpans, LeaveAnOpThatGaveTheDeviceNothingAsTheHostSawIt) {
  DeviceSpans spans({});
  spans.AddHost(Host(0), 0);
  const auto out = All(spans);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].start_ns, 100);
  EXPECT_EQ(out[0].end_ns, 900);
}

TEST(DeviceSpans, WaitForRecordsUntilTheOpHasSettled) {
  DeviceSpans spans({}, /*settle_ns=*/1'000);
  std::vector<Span> out;
  spans.AddActivity(Work(0, 200, 300));  // before its host span
  spans.Release(5'000, out);
  EXPECT_TRUE(out.empty());
  spans.AddHost(Host(0), 5'000);
  spans.Release(5'999, out);
  EXPECT_TRUE(out.empty());
  spans.AddActivity(Work(0, 400, 450));
  spans.Release(6'000, out);
  EXPECT_EQ(out.size(), 2U);
}

TEST(DeviceSpans, CountRecordsThatComeTooLateOrOfOpsThatNeverEnded) {
  DeviceSpans spans({}, /*settle_ns=*/0);
  std::vector<Span> out;
  spans.AddHost(Host(0), 0);
  spans.Release(1, out);
  spans.AddActivity(Work(0, 200, 300));  // its op is gone
  spans.AddActivity(Work(7, 200, 300));  // its op has no host span
  spans.ReleaseAll(out);
  EXPECT_EQ(out.size(), 1U);
  EXPECT_EQ(spans.late(), 2);
}

TEST(DeviceSpans, ForgetWhatCameLateOnceStepsHaveGoneBy) {
  DeviceSpans spans({}, /*settle_ns=*/0);
  std::vector<Span> out;
  spans.AddHost(Host(0), 0);
  spans.Release(1, out);
  spans.AddActivity(Work(0, 200, 300));
  spans.AddHost(Host(9), 2);
  spans.Release(3, out);
  EXPECT_EQ(spans.late(), 1);
}

TEST(DeviceSpans, KeepTheWindowAlone) {
  DeviceSpans spans({.first_step = 2, .end_step = 4, .ranks = {1}});
  for (std::int32_t step = 0; step < 6; ++step) spans.AddActivity(Work(step, 200, 300));
  OwnedActivity other = Work(2, 200, 300);
  other.owner->rank = 0;
  spans.AddActivity(other);
  spans.AddHost(Host(2), 0);
  spans.AddHost(Host(3), 0);
  EXPECT_EQ(All(spans).size(), 2U);
  EXPECT_EQ(spans.outside(), 5);
}

TEST(DeviceSpans, GiveWorkOfNoOpToTheProcesssOwnRank) {
  DeviceSpans spans({}, /*settle_ns=*/0, /*own_rank=*/4);
  OwnedActivity copy = Work(0, 10, 20, FT_ACTIVITY_COPY);
  copy.owner.reset();
  spans.AddActivity(copy);
  const auto out = All(spans);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].op, kNoOp);
  EXPECT_EQ(out[0].rank, 4);
  EXPECT_EQ(out[0].step, -1);
  EXPECT_EQ(out[0].op_class, OpClass::kCopy);
}

}  // namespace
}  // namespace foretrain
