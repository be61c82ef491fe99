// The capture entries of a plugin without CUPTI's headers. CUDA's runtime is this file's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#if FORETRAIN_HAVE_CUDA
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include "profiler/cuda/capture_entries.h"

namespace {

int starts = 0, stops = 0;
cudaError_t answer = cudaSuccess;

}  // namespace

extern "C" {
cudaError_t cudaProfilerStart() {
  ++starts;
  return answer;
}
cudaError_t cudaProfilerStop() {
  ++stops;
  return answer;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return answer;
}
}

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(CaptureEntries, OpenWindowsForOtherToolsWithoutCupti) {
  FtDeviceApi api{};
  api.native_queue = [](FtQueue* queue) -> void* { return queue; };
  SetCudaCaptureEntries(api);
  starts = stops = 0;  // other tests call them too
  char why[512] = "";
  EXPECT_EQ(api.capture_open(FT_CAPTURE_FULL, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("without CUPTI's headers"));
  EXPECT_EQ(api.capture_start(why, sizeof why), FT_OK);
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(api.capture_wants_names(), 0);  // no tool is attached
  const FtOpTag tag{.op_id = 1, .step = 0, .rank = 0, .name = "forward"};
  EXPECT_EQ(api.capture_push(&tag), FT_OK);
  EXPECT_EQ(api.native_queue(nullptr), nullptr);
  EXPECT_EQ(api.capture_pop(), FT_OK);
  FtActivity record{};
  std::int64_t count = 7, dropped = 7;
  EXPECT_EQ(api.capture_drain(1, &record, 1, &count, &dropped, why, sizeof why), FT_OK);
  EXPECT_EQ(count + dropped, 0);
  const std::int32_t gpu = 0;
  EXPECT_EQ(api.counters_open(&gpu, 1, 1'000'000, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_THAT(why, HasSubstr("without CUPTI's headers"));
  EXPECT_EQ(api.counters_start(why, sizeof why), FT_UNSUPPORTED);
  EXPECT_EQ(api.counters_drain(nullptr, 0, &count, why, sizeof why), FT_UNSUPPORTED);
  EXPECT_EQ(api.counters_stop(why, sizeof why), FT_UNSUPPORTED);
  EXPECT_EQ(api.capture_stop(why, sizeof why), FT_OK);
  EXPECT_EQ(stops, 1);
}

TEST(CaptureEntries, GiveTheNumberOfAProfilerCallThatFails) {
  FtDeviceApi api{};
  SetCudaCaptureEntries(api);
  answer = cudaErrorUnknown;
  char why[512] = "";
  EXPECT_EQ(api.capture_start(why, sizeof why), FT_FAILED);
  EXPECT_STREQ(why, "cudaProfilerStart failed with 999");
  EXPECT_EQ(api.capture_stop(why, sizeof why), FT_FAILED);
  EXPECT_STREQ(why, "cudaProfilerStop failed with 999");
  EXPECT_EQ(api.counters_open(nullptr, 0, 1, why, sizeof why), FT_FAILED);
  EXPECT_STREQ(why, "cudaGetDeviceCount failed with 999");
  answer = cudaSuccess;
}

}  // namespace
}  // namespace foretrain
#else
TEST(CaptureEntries, AreLeftOut) {
  GTEST_SKIP() << "this build found no CUDA toolkit: configure where it is";
}
#endif
