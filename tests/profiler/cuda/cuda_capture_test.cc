// The CUDA device's capture on a fake CUPTI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_CUPTI
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <thread>

#include "tests/paths.h"

#include "tests/profiler/cuda/fake_cupti_library.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

struct CudaCaptureTest : testing::Test {
  void SetUp() override { ResetFakeCupti(); }

  std::vector<FtActivity> Drained(bool idle = false, std::int64_t capacity = 100) {
    std::vector<FtActivity> all, part(static_cast<std::size_t>(capacity));
    for (std::int64_t count = capacity; count == capacity;) {
      std::int64_t lost = 0;
      EXPECT_EQ(capture.Drain(idle, part.data(), capacity, &count, &lost, why, sizeof why), FT_OK)
          << why;
      dropped += lost;
      all.insert(all.end(), part.begin(), part.begin() + count);
    }
    return all;
  }
  void OpenAndStart(std::int32_t level = FT_CAPTURE_FULL) {
    ASSERT_EQ(capture.Open(level, why, sizeof why), FT_OK) << why;
    ASSERT_EQ(capture.Start(why, sizeof why), FT_OK) << why;
  }
  // Records a kernel launched between push and pop, as CUPTI does.
  void Launch(std::uint32_t correlation, const FtOpTag& tag) {
    ASSERT_EQ(capture.Push(tag), FT_OK);
    TagRecord external{};
    external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    external.externalId = fake.pushed.back();
    external.correlationId = correlation;
    fake.Add(external);
    KernelRecord kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.correlationId = correlation;
    kernel.start = 1000 * correlation;
    kernel.end = 1000 * correlation + 500;
    kernel.name = "_ZN9foretrain4NormEPKf";
    kernel.streamId = 7;
    fake.Add(kernel);
    ASSERT_EQ(capture.Pop(), FT_OK);
  }

  FakeCupti& fake = TheFakeCupti();
  CudaCapture capture{MakeSurroundings()};
  char why[512] = "";
  std::int64_t dropped = 0;
};

TEST_F(CudaCaptureTest, TellsKernelsAndTheOpsTheyWereLaunchedFor) {
  OpenAndStart();
  Launch(1, {.op_id = 0x7000'0000'0000'0001, .step = 1'000'000, .rank = 3, .name = nullptr});
  Launch(2, {.op_id = 42, .step = 0, .rank = 0, .name = nullptr});
  const auto records = Drained();
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[0].kind, FT_ACTIVITY_TAG);
  EXPECT_EQ(records[0].op_id, 0x7000'0000'0000'0001);
  EXPECT_EQ(records[0].step, 1'000'000);
  EXPECT_EQ(records[0].rank, 3);
  EXPECT_EQ(records[0].correlation, 1U);
  EXPECT_EQ(records[1].kind, FT_ACTIVITY_KERNEL);
  EXPECT_EQ(records[1].start_ns, 1000);
  EXPECT_EQ(records[1].end_ns, 1500);
  EXPECT_EQ(records[1].stream, 7);
  EXPECT_STREQ(records[1].name, "foretrain::Norm(float const*)");
  EXPECT_EQ(records[2].op_id, 42);
  EXPECT_EQ(records[2].step, 0);
}

TEST_F(CudaCaptureTest, ReadsManyBuffersInAnySizeOfParts) {
  fake.records_a_buffer = 3;
  OpenAndStart();
  for (std::uint32_t i = 1; i <= 20; ++i) {
    Launch(i, {.op_id = i, .step = 0, .rank = 0, .name = nullptr});
  }
  EXPECT_EQ(Drained(false, /*capacity=*/7).size(), 40U);
  EXPECT_THAT(Drained(), IsEmpty());
}

TEST_F(CudaCaptureTest, HandsInvalidTimesOnForTheCount) {
  OpenAndStart();
  KernelRecord kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  fake.Add(kernel);
  const auto records = Drained();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].start_ns, 0);
  EXPECT_EQ(records[0].end_ns, 0);
}

TEST_F(CudaCaptureTest, CountsWhatWasDroppedOnce) {
  OpenAndStart();
  fake.dropped = 9;
  Drained();
  Drained();
  EXPECT_EQ(dropped, 9);
}

TEST_F(CudaCaptureTest, LeavesOthersIdsAndUnknownKindsOut) {
  OpenAndStart();
  TagRecord external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1;  // another library's
  fake.Add(external);
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = std::uint64_t{99} << 32;  // a label that was never given out
  fake.Add(external);
  CUpti_ActivityDevice5 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  fake.Add(device);
  EXPECT_THAT(Drained(), IsEmpty());
}

TEST_F(CudaCaptureTest, RecordsByLevelAndWithinTheWindowAlone) {
  ASSERT_EQ(capture.Open(FT_CAPTURE_LAUNCHES, why, sizeof why), FT_OK);
  EXPECT_THAT(fake.enabled, IsEmpty());
  // Outside the window CUPTI is not called.
  ASSERT_EQ(capture.Push({.op_id = 1, .step = 0, .rank = 0, .name = nullptr}), FT_OK);
  EXPECT_THAT(fake.pushed, IsEmpty());
  ASSERT_EQ(capture.Pop(), FT_OK);
  ASSERT_EQ(capture.Start(why, sizeof why), FT_OK);
  EXPECT_THAT(fake.enabled, Not(Contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)));
  EXPECT_THAT(fake.enabled, Contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
  // Without the kinds of all calls, CUPTI 13.0 records no single one.
  EXPECT_THAT(fake.enabled, Contains(CUPTI_ACTIVITY_KIND_RUNTIME));
  EXPECT_THAT(fake.enabled, Contains(CUPTI_ACTIVITY_KIND_DRIVER));
  EXPECT_THAT(fake.runtime_calls, Contains(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
  EXPECT_THAT(fake.runtime_calls, Not(Contains(CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020)));
  EXPECT_THAT(fake.driver_calls, Contains(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel));
  EXPECT_THAT(fake.driver_calls, Not(Contains(CUPTI_DRIVER_TRACE_CBID_cuEventQuery)));
  capture.Stop();
  EXPECT_THAT(fake.enabled, IsEmpty());
  EXPECT_THAT(fake.runtime_calls, IsEmpty());
  EXPECT_THAT(fake.driver_calls, IsEmpty());
  // A second run in the same process.
  ASSERT_EQ(capture.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK);
  ASSERT_EQ(capture.Start(why, sizeof why), FT_OK);
  EXPECT_THAT(fake.enabled, Contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
  // KIND_KERNEL would serialize kernels, and GRAPH_TRACE would hide a graph's nodes.
  EXPECT_THAT(fake.enabled, Not(Contains(CUPTI_ACTIVITY_KIND_KERNEL)));
  EXPECT_THAT(fake.enabled, Not(Contains(CUPTI_ACTIVITY_KIND_GRAPH_TRACE)));
  EXPECT_EQ(fake.timestamp_registrations, 1);
  EXPECT_EQ(fake.subscriptions, 1);
}

TEST_F(CudaCaptureTest, ForcesBuffersOutOnlyWhereNothingRuns) {
  OpenAndStart();
  Drained(false);
  EXPECT_THAT(fake.flushes, Each(0U));
  Drained(true);
  EXPECT_EQ(fake.flushes.back(), static_cast<std::uint32_t>(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
}

TEST_F(CudaCaptureTest, TellsTheNodesOfGraphsAndTheirCopies) {
  OpenAndStart();
  const auto node = [](std::uintptr_t id) { return reinterpret_cast<CUgraphNode>(id); };
  CUpti_GraphData graph{};
  CUpti_ResourceData data{};
  data.resourceDescriptor = &graph;
  const auto tell = [&](CUpti_CallbackId id) {
    fake.callback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
  };
  ASSERT_EQ(capture.Push({.op_id = 77, .step = 0, .rank = 2, .name = nullptr}), FT_OK);
  graph.node = node(5);
  tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
  // Another thread has no current op.
  std::thread([&] {
    graph.node = node(9);
    tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
  }).join();
  ASSERT_EQ(capture.Pop(), FT_OK);
  graph.node = node(6);
  graph.originalNode = node(5);
  tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
  std::vector<std::uint64_t> nodes;
  for (const FtActivity& record : Drained()) {
    EXPECT_EQ(record.kind, FT_ACTIVITY_GRAPH_NODE);
    EXPECT_EQ(record.op_id, 77);
    EXPECT_EQ(record.rank, 2);
    nodes.push_back(record.graph_node);
  }
  EXPECT_THAT(nodes, testing::UnorderedElementsAre(5U, 6U));
}

// Launches by threads of a library, as CUPTI tells them while they happen.
TEST_F(CudaCaptureTest, TagsLaunchesOfOtherThreadsByTheirStream) {
  OpenAndStart();
  const auto stream = [](std::uintptr_t id) { return reinterpret_cast<CUstream>(id); };
  const auto launch = [&](CUstream on, std::uint32_t correlation, CUpti_ApiCallbackSite site) {
    CUlaunchConfig config{};
    config.hStream = on;
    const cuLaunchKernelEx_params parameters{&config, nullptr, nullptr, nullptr};
    CUpti_CallbackData data{};
    data.callbackSite = site;
    data.functionParams = &parameters;
    data.correlationId = correlation;
    fake.callback(nullptr, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                  &data);
  };
  ASSERT_EQ(capture.Push({.op_id = 5, .step = 3, .rank = 1, .name = nullptr}), FT_OK);
  capture.HandsOut(stream(16));
  launch(stream(16), 1, CUPTI_API_ENTER);  // this thread has an external id
  std::thread([&] {
    launch(stream(16), 2, CUPTI_API_ENTER);
    launch(stream(16), 2, CUPTI_API_EXIT);
    launch(stream(32), 3, CUPTI_API_ENTER);  // no op has this stream
  }).join();
  ASSERT_EQ(capture.Pop(), FT_OK);
  capture.HandsOut(stream(32));  // for no op
  std::thread([&] { launch(stream(32), 4, CUPTI_API_ENTER); }).join();
  const auto records = Drained();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, FT_ACTIVITY_TAG);
  EXPECT_EQ(records[0].correlation, 2U);
  EXPECT_EQ(records[0].op_id, 5);
  EXPECT_EQ(records[0].step, 3);
  EXPECT_EQ(records[0].rank, 1);
  capture.Stop();
  EXPECT_THAT(fake.callbacks, Each(Key(CUPTI_CB_DOMAIN_RESOURCE)));
}

TEST_F(CudaCaptureTest, SaysInOneSentenceWhyThereAreNoRecords) {
  const auto expect = [&](const char* text) {
    CudaCapture other{MakeSurroundings()};
    char said[512] = "";
    EXPECT_EQ(other.Open(FT_CAPTURE_FULL, said, sizeof said), FT_UNSUPPORTED) << text;
    EXPECT_THAT(said, HasSubstr(text));
    // The other calls still succeed, and CUPTI is not called.
    EXPECT_EQ(other.Start(said, sizeof said), FT_OK);
    EXPECT_EQ(other.Push({.op_id = 1, .step = 0, .rank = 0, .name = "forward"}), FT_OK);
    EXPECT_EQ(other.Pop(), FT_OK);
    other.Stop();
    EXPECT_THAT(fake.pushed, IsEmpty());
    EXPECT_THAT(fake.enabled, IsEmpty());
  };
  Surroundings().library = "libcupti-that-is-not.so";
  expect("libcupti-that-is-not.so was not found");
  Surroundings() = {};
  Surroundings().environment = {{"NSYS_PROFILING_SESSION_ID", "12"}};
  expect("NSYS_PROFILING_SESSION_ID");
  Surroundings().environment = {{"CUDA_INJECTION64_PATH", "/tool.so"}};
  expect("CUDA_INJECTION64_PATH");
  Surroundings() = {};
  fake.failing = "Subscribe";
  fake.failure = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  expect("another tool uses CUPTI");
  fake.failure = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  expect("CUPTI_ERROR_OF_THE_TEST");
}

TEST_F(CudaCaptureTest, GivesTheLibrarysWordsForWhatFails) {
  for (const char* entry : {"ActivityEnable", "ActivityEnableRuntimeApi", "EnableCallback"}) {
    ResetFakeCupti();
    fake.failing = entry;
    CudaCapture other{MakeSurroundings()};
    ASSERT_EQ(other.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK);
    EXPECT_EQ(other.Start(why, sizeof why), FT_FAILED) << entry;
    EXPECT_THAT(why, HasSubstr("CUPTI_ERROR_OF_THE_TEST"));
    EXPECT_THAT(fake.enabled, IsEmpty()) << entry;
  }
  ResetFakeCupti();
  CudaCapture other{MakeSurroundings()};
  ASSERT_EQ(other.Open(FT_CAPTURE_FULL, why, sizeof why), FT_OK);
  fake.failing = "ActivityFlushAll";
  std::array<FtActivity, 4> room{};
  std::int64_t count = 0;
  EXPECT_EQ(other.Drain(false, room.data(), 4, &count, &dropped, why, sizeof why), FT_FAILED);
  EXPECT_EQ(count, 0);
}

TEST_F(CudaCaptureTest, LoadsTheRealLibraryOrSaysThatItIsMissing) {
  CuptiTable table;
  const char* const missing[] = {"libcupti-that-is-not.so"};
  EXPECT_FALSE(LoadCupti(missing, 1, table, why, sizeof why));
  EXPECT_THAT(why, HasSubstr("libcupti-that-is-not.so was not found"));
  const char* const other[] = {"libc.so.6"};
  EXPECT_FALSE(LoadCupti(other, 1, table, why, sizeof why));
  EXPECT_THAT(why, HasSubstr("has no function cupti"));
  const std::string path = TestPlugin("cupti");
  const char* const fakes[] = {path.c_str()};
  for (const std::uint32_t version : {19U, CUPTI_API_VERSION >= 130000 ? 28U : 130000U, 140000U}) {
    fake.version = version;
    EXPECT_FALSE(LoadCupti(fakes, 1, table, why, sizeof why)) << version;
    EXPECT_THAT(why, HasSubstr("libcupti has version " + std::to_string(version)));
  }
  const std::string name = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);
  const char* const real[] = {name.c_str()};
  if (!LoadCupti(real, 1, table, why, sizeof why)) {
    GTEST_SKIP() << name << " does not load here: " << why
                 << "; with the CUDA toolkit's libraries in LD_LIBRARY_PATH it would";
  }
  std::uint64_t now = 0;
  EXPECT_EQ(table.GetTimestamp(&now), CUPTI_SUCCESS);
  EXPECT_GT(now, 0U);
}

// As before CUDA 12.6: all calls are recorded, and only launches are kept.
TEST_F(CudaCaptureTest, KeepsLaunchesOfACuptiThatRecordsAllCalls) {
  CudaCapture other{{[](CuptiTable& table, char* said, std::size_t n) {
                       const bool loads = MakeSurroundings().load(table, said, n);
                       table.ActivityEnableDriverApi = table.ActivityEnableRuntimeApi = nullptr;
                       return loads;
                     },
                     MakeSurroundings().environment}};
  ASSERT_EQ(other.Open(FT_CAPTURE_LAUNCHES, why, sizeof why), FT_OK) << why;
  ASSERT_EQ(other.Start(why, sizeof why), FT_OK) << why;
  EXPECT_THAT(fake.runtime_calls, Contains(CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020));
  ApiRecord call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  for (const CUpti_CallbackId id : {CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,
                                    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000}) {
    call.cbid = id;
    call.correlationId = id;
    fake.Add(call);
  }
  std::array<FtActivity, 4> room{};
  std::int64_t count = 0;
  ASSERT_EQ(other.Drain(true, room.data(), 4, &count, &dropped, why, sizeof why), FT_OK);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(room[0].kind, FT_ACTIVITY_LAUNCH);
  EXPECT_EQ(room[0].correlation, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
}

TEST(ActivityBuffers, GiveNoMoreThanTheyMayAndHandOutZeros) {
  ActivityBuffers buffers(/*max=*/2);
  std::uint8_t* const first = buffers.Request();
  std::uint8_t* const second = buffers.Request();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(buffers.Request(), nullptr);
  EXPECT_EQ(buffers.refused(), 1);
  first[0] = 1;
  buffers.Complete(second, 10);
  buffers.Complete(first, 20);
  ActivityBuffers::Filled filled;
  ASSERT_TRUE(buffers.Next(filled));
  EXPECT_EQ(filled.memory, second);
  ASSERT_TRUE(buffers.Next(filled));
  EXPECT_EQ(filled.bytes, 20U);
  EXPECT_FALSE(buffers.Next(filled));
  buffers.Return(first);
  EXPECT_EQ(buffers.Request(), first);
  EXPECT_EQ(first[0], 0);
}

}  // namespace
}  // namespace foretrain
#else
TEST(CudaCapture, IsLeftOut) {
  GTEST_SKIP() << "this build found no cupti.h: configure where the toolkit is";
}
#endif
