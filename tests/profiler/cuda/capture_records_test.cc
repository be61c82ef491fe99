// The records of each kind that the CUDA device's capture reads, and the failures of reading them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_CUPTI
#include <array>
#include <chrono>

#include "profiler/cuda/activity_records.h"
#include "tests/profiler/cuda/fake_cupti_library.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class Record>
Record Of(CUpti_ActivityKind kind) {
  Record record{};
  record.kind = kind;
  record.start = 100;
  record.end = 150;
  return record;
}

// The activity of a record that has a meaning for us.
template <class Record>
FtActivity Parsed(const Record& record) {
  FtActivity activity{};
  ExternalId external;
  EXPECT_EQ(ParseRecord(reinterpret_cast<const CUpti_Activity&>(record), activity, external),
            ParsedRecord::kActivity);
  EXPECT_EQ(activity.start_ns, 100);
  EXPECT_EQ(activity.end_ns, 150);
  EXPECT_EQ(activity.op_id, -1);
  return activity;
}

TEST(ActivityRecords, OfKernelsHaveTheirLaunch) {
  auto record = Of<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  record.name = "gemm";
  record.correlationId = 7;
  record.graphNodeId = 9;
  record.deviceId = 3;
  record.streamId = 5;
  record.gridX = 64;
  record.gridY = 2;
  record.gridZ = 3;
  record.blockX = 128;
  record.blockY = 4;
  record.blockZ = 5;
  record.registersPerThread = 168;
  record.staticSharedMemory = 16;
  record.dynamicSharedMemory = 4096;
  const FtActivity activity = Parsed(record);
  EXPECT_EQ(activity.kind, FT_ACTIVITY_KERNEL);
  EXPECT_STREQ(activity.name, "gemm");
  EXPECT_EQ(activity.correlation, 7U);
  EXPECT_EQ(activity.graph_node, 9U);
  EXPECT_EQ(activity.device, 3);
  EXPECT_EQ(activity.stream, 5);
  EXPECT_THAT(activity.launch.grid, ElementsAre(64, 2, 3));
  EXPECT_THAT(activity.launch.block, ElementsAre(128, 4, 5));
  EXPECT_EQ(activity.launch.registers, 168);
  EXPECT_EQ(activity.launch.static_shared_bytes, 16);
  EXPECT_EQ(activity.launch.dynamic_shared_bytes, 4096);
}

TEST(ActivityRecords, OfCopiesAndFillsHaveTheirBytes) {
  const auto check = [](auto record, FtActivityKind kind) {
    record.bytes = 4096;
    record.correlationId = 7;
    record.deviceId = 3;
    const FtActivity activity = Parsed(record);
    EXPECT_EQ(activity.kind, kind);
    EXPECT_EQ(activity.bytes, 4096);
    EXPECT_EQ(activity.correlation, 7U);
    EXPECT_EQ(activity.device, 3);
    EXPECT_EQ(activity.launch.grid[0], 0);
  };
  check(Of<CopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY), FT_ACTIVITY_COPY);
  check(Of<PeerCopyRecord>(CUPTI_ACTIVITY_KIND_MEMCPY2), FT_ACTIVITY_COPY);
  check(Of<FillRecord>(CUPTI_ACTIVITY_KIND_MEMSET), FT_ACTIVITY_FILL);
}

TEST(ActivityRecords, OfTheHostAreLaunchesWaitsAndOverhead) {
  auto call = Of<ApiRecord>(CUPTI_ACTIVITY_KIND_RUNTIME);
  call.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000;
  call.correlationId = 7;
  EXPECT_EQ(Parsed(call).kind, FT_ACTIVITY_LAUNCH);
  call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  call.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx;
  EXPECT_EQ(Parsed(call).correlation, 7U);
  EXPECT_EQ(Parsed(Of<WaitRecord>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)).kind, FT_ACTIVITY_WAIT);
  EXPECT_EQ(Parsed(Of<OverheadRecord>(CUPTI_ACTIVITY_KIND_OVERHEAD)).kind, FT_ACTIVITY_OVERHEAD);
  // A call that launches nothing.
  call.cbid = CUPTI_DRIVER_TRACE_CBID_cuEventQuery;
  FtActivity activity{};
  ExternalId external;
  EXPECT_EQ(ParseRecord(reinterpret_cast<const CUpti_Activity&>(call), activity, external),
            ParsedRecord::kNothing);
}

struct CaptureRecordsTest : testing::Test {
  void SetUp() override { ResetFakeCupti(); }

  FtStatus Drain() {
    std::int64_t count = 0, dropped = 0;
    return capture.Drain(false, room.data(), std::ssize(room), &count, &dropped, why, sizeof why);
  }

  FakeCupti& fake = TheFakeCupti();
  CudaCapture capture{MakeSurroundings()};
  std::array<FtActivity, 8> room{};
  char why[512] = "";
};

// CUPTI stamps by the callback that was registered: the clock of the host's spans.
TEST_F(CaptureRecordsTest, HaveTimesOfTheMonotonicClock) {
  std::int64_t now_ns = 0;
  EXPECT_EQ(capture.Clock(&now_ns, why, sizeof why), FT_FAILED);  // not open
  ASSERT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK) << why;
  const auto now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  const std::int64_t before = now();
  ASSERT_EQ(capture.Clock(&now_ns, why, sizeof why), FT_OK) << why;
  EXPECT_GE(now_ns, before);
  EXPECT_LE(now_ns, now());
  fake.failing = "GetTimestamp";
  EXPECT_EQ(capture.Clock(&now_ns, why, sizeof why), FT_FAILED);
  EXPECT_THAT(why, HasSubstr("read the clock"));
}

TEST_F(CaptureRecordsTest, EndWithTheLibrarysWordsIfTheyCannotBeRead) {
  ASSERT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK) << why;
  for (const auto& [call, text] : {std::pair("ActivityGetNextRecord", "read a record"),
                                   std::pair("ActivityGetNumDroppedRecords", "count lost records"),
                                   std::pair("ActivityFlushAll", "flush")}) {
    fake.Add(Of<KernelRecord>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    fake.failing = call;
    EXPECT_EQ(Drain(), FT_FAILED) << call;
    EXPECT_THAT(why, HasSubstr(text));
    fake.failing = "";
    EXPECT_EQ(Drain(), FT_OK) << why;
  }
}

TEST_F(CaptureRecordsTest, DoNotComeFromALibraryThatFailedBefore) {
  fake.failing = "ActivityRegisterCallbacks";
  EXPECT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("register buffers"));
  fake.failing = "";
  EXPECT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("earlier run"));
  EXPECT_EQ(fake.subscriptions, 1);
}

TEST_F(CaptureRecordsTest, NeedTheCallsOfTheDriver) {
  ASSERT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK) << why;
  fake.failing = "ActivityEnableDriverApi";
  EXPECT_EQ(capture.Start(why, sizeof why), FT_FAILED);
  EXPECT_THAT(why, HasSubstr("record a call"));
  fake.failing = "ActivityPushExternalCorrelationId";
  ASSERT_EQ(capture.Start(why, sizeof why), FT_OK) << why;
  EXPECT_EQ(capture.Push({.op_id = 1, .step = 0, .rank = 0, .name = nullptr}), FT_FAILED);
  fake.failing = "ActivityPopExternalCorrelationId";
  EXPECT_EQ(capture.Pop(), FT_FAILED);
}

// CUPTI may have no buffer left.
TEST_F(CaptureRecordsTest, AreLostWhereAllBuffersAreFull) {
  ActivityBuffers buffers(/*max=*/1);
  std::uint8_t* const only = buffers.Request();
  ASSERT_NE(only, nullptr);
  EXPECT_EQ(buffers.Request(), nullptr);
  EXPECT_EQ(buffers.refused(), 1);
  buffers.Complete(only, 8);
  ActivityBuffers::Filled filled;
  ASSERT_TRUE(buffers.Next(filled));
  EXPECT_EQ(filled.bytes, 8U);
  only[0] = 1;
  buffers.Return(only);
  EXPECT_EQ(buffers.Request(), only);
  EXPECT_EQ(only[0], 0);  // zeroed again
}

}  // namespace
}  // namespace foretrain
#endif
