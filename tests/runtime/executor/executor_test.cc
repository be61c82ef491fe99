// Results, records and measurements of a run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "runtime/executor/executor.h"
#include "tests/runtime/executor/executor_runs.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;
constexpr Access kRW = Access::kReadWrite;

// Each rank's state becomes the sum of squares over ranks: hand-computed values through kernels,
// collectives and HostRead.
TEST(Executor, ComputesThroughKernelsCollectivesAndHostReads) {
  constexpr int kRanks = 3;
  ProgramBuilder builder(kRanks);
  std::vector<std::int32_t> state;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto w = builder.Buffer(rank, 4, true, Category::kParameters);
    const auto norm = builder.Buffer(rank, 1, true);
    builder.Add(rank, OpKind::kSquaredNorm, Queue::kCompute, {{w, kR}, {norm, kW}}, "norm")
        .shape.elements = 4;
    builder.AllReduce(rank, Queue::kReduce, norm, 1, "sum");
    Op& add = builder.Add(rank, OpKind::kAdd, Queue::kCompute, {{w, kR}, {w, kR}, {-1}, {w, kW}},
                          "double");
    add.shape.rows = 1;
    add.shape.cols = 4;
    builder.ReadLoss(rank, norm);
    state.push_back(w);
  }
  const auto program = builder.Take();
  RealClock clock;
  ExecutorOptions options;
  options.first_step = 100;
  auto executor = MakeExecutor(program, clock, options);
  // w of rank r is r + 1 in all four elements: the squares sum to 4 (1 + 4 + 9) = 56.
  for (int rank = 0; rank < kRanks; ++rank) {
    auto* w = reinterpret_cast<float*>(
        executor->Arena(rank).BufferAt(state[static_cast<std::size_t>(rank)]));
    for (int i = 0; i < 4; ++i) w[i] = static_cast<float>(rank + 1);
  }
  RecordingSink sink;
  RunOk(*executor, 2, sink);
  RunOk(*executor, 1, sink);  // continues where the first ended
  ASSERT_EQ(sink.scalars.size(), 9U);
  for (const StepScalars& scalars : sink.scalars) {
    // w doubles in each step, so the squares grow by 4.
    EXPECT_EQ(scalars.loss, 56.0F * std::pow(4.0F, static_cast<float>(scalars.step - 100)));
    EXPECT_FALSE(scalars.squared_norm.has_value());
  }
  EXPECT_EQ(executor->next_step(), 103);
  EXPECT_EQ(*reinterpret_cast<float*>(executor->Arena(2).BufferAt(state[2])), 24.0F);
}

TEST(Executor, LoadsTheBatchOfItsStepRankAndMicroBatch) {
  ProgramBuilder builder(2);
  std::vector<std::int32_t> ids;
  for (int rank = 0; rank < 2; ++rank) {
    ids.push_back(builder.Buffer(rank, 8, true, Category::kStaging));
    const auto targets = builder.Buffer(rank, 8, true, Category::kStaging);
    builder.Opaque(rank, Queue::kCompute, 0);
    // The builder's second instruction is micro-batch 1.
    builder.Add(rank, OpKind::kLoadBatch, Queue::kH2d, {{ids.back(), kW}, {targets, kW}}, "load");
  }
  const auto program = builder.Take();
  RealClock clock;
  ExecutorOptions options;
  options.first_step = 3;
  auto executor = MakeExecutor(program, clock, options);
  RecordingSink sink;
  RunOk(*executor, 1, sink);
  for (int rank = 0; rank < 2; ++rank) {
    const auto* at = reinterpret_cast<const std::int32_t*>(
        executor->Arena(rank).BufferAt(ids[static_cast<std::size_t>(rank)]));
    EXPECT_EQ(at[0], 30000 + rank * 1000 + 100);
    EXPECT_EQ(at[7], 30000 + rank * 1000 + 107);
  }
  EXPECT_EQ(SpanNamed(*program, sink.timeline, "load", 0, 3).bytes, 64);
}

TEST(Executor, RecordsEveryOpOnceAStepWithoutOverlapOnAQueue) {
  constexpr int kSteps = 50;
  ProgramBuilder builder(2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto x = builder.Buffer(rank, 256);
    const auto y = builder.Buffer(rank, 256);
    for (int i = 0; i < 10; ++i) {
      builder.Opaque(rank, Queue::kCompute, 0, {{i % 2 == 0 ? x : y, i < 2 ? kW : kRW}});
      if (i % 3 == 2) builder.AllReduce(rank, Queue::kReduce, x, 256);
    }
  }
  const auto program = builder.Take();
  RealClock clock;
  auto executor = MakeExecutor(program, clock);
  RecordingSink sink;
  RunOk(*executor, kSteps, sink);
  SortTimeline(sink.timeline);
  std::map<std::tuple<int, int, OpId>, int> seen;
  const Span* before = nullptr;
  for (const Span& span : sink.timeline.spans) {
    ++seen[{span.rank, span.step, span.op}];
    EXPECT_LE(span.ready_ns, span.start_ns);
    EXPECT_LE(span.start_ns, span.end_ns);
    if (before != nullptr && before->rank == span.rank && before->queue == span.queue) {
      EXPECT_LE(before->end_ns, span.start_ns);
    }
    before = &span;
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * kSteps * program->ranks[0].op_count));
  for (const auto& [key, count] : seen) EXPECT_EQ(count, 1);
  ASSERT_EQ(sink.timeline.steps.size(), 2U * kSteps);
}

// x is live while a and b use it, y from b to c; 1 KiB each.
TEST(Executor, MeasuresLiveBytesAsOpsStartAndEnd) {
  ProgramBuilder builder(1);
  const auto w = builder.Buffer(0, 512, true, Category::kParameters);
  const auto x = builder.Buffer(0, 256);
  const auto y = builder.Buffer(0, 256, false, Category::kWorkspace);
  builder.Opaque(0, Queue::kCompute, 1, {{w, kR}, {x, kW}}, "a");
  builder.Opaque(0, Queue::kCompute, 1, {{x, kR}, {y, kW}}, "b");
  builder.Opaque(0, Queue::kCompute, 1, {{y, kR}}, "c");
  const auto program = builder.Take();
  VirtualClock clock;
  auto executor = MakeExecutor(program, clock);
  RecordingSink sink;
  const RunSummary summary = RunOk(*executor, 1, sink);
  std::vector<std::tuple<std::int64_t, Category, std::int64_t>> samples;
  for (const MemorySample& sample : sink.timeline.memory) {
    samples.emplace_back(sample.time_ns / kSecond, sample.category, sample.bytes);
  }
  using testing::ElementsAre;
  using testing::FieldsAre;
  EXPECT_THAT(samples, ElementsAre(FieldsAre(0, Category::kParameters, 2048),
                                   FieldsAre(0, Category::kActivations, 1024),
                                   FieldsAre(1, Category::kWorkspace, 1024),
                                   FieldsAre(2, Category::kActivations, 0),
                                   FieldsAre(3, Category::kWorkspace, 0)));
  EXPECT_THAT(summary.peak_bytes, ElementsAre(2048 + 1024 + 1024));
}

TEST(Executor, PoisonsWhatIsDeadAndNotWhatLives) {
  ProgramBuilder builder(1);
  const auto x = builder.Buffer(0, 64);
  const auto y = builder.Buffer(0, 64);
  const auto z = builder.Buffer(0, 1, true);
  builder.Add(0, OpKind::kFill, Queue::kCompute, {{x, kW}}).shape.elements = 64;
  Op& add = builder.Add(0, OpKind::kAdd, Queue::kCompute, {{x, kR}, {x, kR}, {-1}, {y, kW}});
  add.shape.rows = 1;
  add.shape.cols = 64;
  builder.Add(0, OpKind::kSquaredNorm, Queue::kReduce, {{y, kR}, {z, kW}}).shape.elements = 64;
  builder.ReadLoss(0, z);
  // A buffer that is read before it is written.
  const auto never = builder.Buffer(0, 64);
  const auto bad = builder.Buffer(0, 1, true);
  builder.Add(0, OpKind::kSquaredNorm, Queue::kCompute, {{never, kRW}, {bad, kW}}).shape.elements =
      64;
  const auto program = builder.Take();
  VirtualClock clock;
  ExecutorOptions options;
  options.poison = true;
  auto executor = MakeExecutor(program, clock, options);
  RecordingSink sink;
  RunOk(*executor, 3, sink);
  ASSERT_EQ(sink.scalars.size(), 3U);
  for (const StepScalars& scalars : sink.scalars) EXPECT_EQ(scalars.loss, 0.0F);
  EXPECT_TRUE(std::isnan(*reinterpret_cast<float*>(executor->Arena(0).BufferAt(bad))));
}

TEST(Executor, EndsAllRanksAtTheSameStepWhenAskedToStop) {
  constexpr int kRanks = 4;
  ProgramBuilder builder(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto x = builder.Buffer(rank, 16, true);
    builder.AllReduce(rank, Queue::kReduce, x, 16);
    builder.ReadLoss(rank, x);
  }
  const auto program = builder.Take();
  RealClock clock;
  auto executor = MakeExecutor(program, clock);
  RecordingSink sink;
  CountingBatches batches;
  std::atomic<int> asked{0};
  auto summary = executor->Run(1'000'000, batches, sink, [&] { return ++asked > 40; });
  ASSERT_TRUE(summary.has_value()) << summary.error().message;
  EXPECT_TRUE(summary->stopped);
  EXPECT_GE(summary->steps, 10);
  EXPECT_LT(summary->steps, 50);
  std::map<int, std::int64_t> steps;
  for (const StepWindow& window : sink.timeline.steps) ++steps[window.rank];
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(steps[rank], summary->steps);
}

}  // namespace
}  // namespace foretrain
