// The executor's own cost for an op. Measures and prints; asserts no speed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "runtime/executor/executor.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

struct CountingSink : RunSink {
  void OnSpans(std::span<const Span> more) override { spans += more.size(); }
  std::size_t spans = 0;
};

void Measure(const char* what, int ops, int steps, bool alternate, bool record) {
  ProgramBuilder builder(1);
  const auto x = builder.Buffer(0, 1);
  const auto y = builder.Buffer(0, 1);
  for (int i = 0; i < ops; ++i) {
    const Queue queue = alternate && i % 2 == 1 ? Queue::kReduce : Queue::kCompute;
    builder.Add(0, OpKind::kFill, queue, {{alternate || i % 2 == 0 ? x : y, Access::kWrite}})
        .shape.elements = 1;
  }
  RealClock clock;
  ExecutorOptions options;
  options.record_memory = options.record_spans = record;
  auto executor = Executor::Make(builder.Take(), MockDeviceApi(), clock, options);
  ASSERT_TRUE(executor.has_value());
  CountingSink sink;
  CountingBatches batches;
  auto warm = (*executor)->Run(2, batches, sink);
  ASSERT_TRUE(warm.has_value());
  const std::size_t before = sink.spans;
  auto summary = (*executor)->Run(steps, batches, sink);
  ASSERT_TRUE(summary.has_value());
  EXPECT_EQ(sink.spans - before, record ? static_cast<std::size_t>(ops) * steps : 0U);
  const double ns = summary->seconds * 1e9 / ops / steps;
  std::printf("%s: %.0f ns an op, recording %.1f %% of CPU time\n", what, ns,
              100 * summary->recording.Share());
  testing::Test::RecordProperty("ns_per_op", std::to_string(ns));
}

TEST(ExecutorCost, OfAnOpOnABusyQueue) {
  Measure("one queue, recorded", 2000, 200, false, true);
  Measure("one queue, not recorded", 2000, 200, false, false);
}

TEST(ExecutorCost, OfAnOpThatWaitsForAnotherQueueEachTime) {
  Measure("two queues in turn, recorded", 2000, 20, true, true);
}

}  // namespace
}  // namespace foretrain
