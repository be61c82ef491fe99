// A run's memory does not grow with the number of steps.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>

#include "runtime/executor/executor.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

// Bytes allocated by malloc; 0 under a sanitizer, which has its own allocator.
std::int64_t BytesInUse() { return static_cast<std::int64_t>(mallinfo2().uordblks); }

// Records the bytes in use at the ends of steps.
struct GrowthSink : RunSink {
  void OnStepWindow(const StepWindow& window) override {
    if (window.rank != 0) return;
    if (window.step == 200) early = BytesInUse();
    if (window.step == 2999) late = BytesInUse();
  }
  void OnSpans(std::span<const Span> more) override { spans += more.size(); }
  std::int64_t early = 0, late = 0;
  std::size_t spans = 0;
};

TEST(MemoryGrowth, StaysWhereItWasAfterThousandsOfSteps) {
  constexpr int kRanks = 2;
  ProgramBuilder builder(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto ids = builder.Buffer(rank, 8, false, Category::kStaging);
    const auto x = builder.Buffer(rank, 64);
    const auto norm = builder.Buffer(rank, 1, true);
    builder.Add(rank, OpKind::kLoadBatch, Queue::kH2d, {{ids, Access::kWrite}, {-1}});
    builder.Add(rank, OpKind::kFill, Queue::kCompute, {{x, Access::kWrite}, {ids, Access::kRead}})
        .shape.elements = 64;
    builder.AllReduce(rank, Queue::kReduce, x, 64);
    builder
        .Add(rank, OpKind::kSquaredNorm, Queue::kCompute,
             {{x, Access::kRead}, {norm, Access::kWrite}})
        .shape.elements = 64;
    builder.ReadLoss(rank, norm);
  }
  const auto program = builder.Take();
  RealClock clock;
  auto executor = Executor::Make(program, MockDeviceApi(), clock, {});
  ASSERT_TRUE(executor.has_value()) << executor.error().message;
  GrowthSink sink;
  CountingBatches batches;
  auto summary = (*executor)->Run(3000, batches, sink);
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_EQ(sink.spans, 3000U * kRanks * 5);
  // 2,800 steps of 10 spans and about 20 memory samples would be 2 MB. Two chunks of spans a lane
  // may come and go: 8 lanes of 64 KiB.
  EXPECT_LT(std::abs(sink.late - sink.early), 600'000) << sink.early << " to " << sink.late;
}

}  // namespace
}  // namespace foretrain
