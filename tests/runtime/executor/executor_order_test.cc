// Start of an op: its queue, its edges, its issue and its peers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/executor/executor.h"
#include "tests/runtime/executor/executor_runs.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;
constexpr Access kRW = Access::kReadWrite;

// compute:  a [0, 3)   b [3, 5)      c waits for r: [9, 10)
// reduce:   r waits for a: [3, 9)
TEST(Executor, StartsEachOpWhenItsQueueIsFreeAndItsInputsAreThere) {
  ProgramBuilder builder(1);
  const auto x = builder.Buffer(0, 4);
  const auto y = builder.Buffer(0, 4);
  builder.Opaque(0, Queue::kCompute, 3, {{x, kW}}, "a");
  builder.Opaque(0, Queue::kReduce, 6, {{x, kRW}}, "r");
  builder.Opaque(0, Queue::kCompute, 2, {{y, kW}}, "b");
  builder.Opaque(0, Queue::kCompute, 1, {{x, kR}, {y, kR}}, "c");
  const auto program = builder.Take();
  VirtualClock clock;
  auto executor = MakeExecutor(program, clock);
  RecordingSink sink;
  const RunSummary summary = RunOk(*executor, 2, sink);
  EXPECT_EQ(summary.steps, 2);
  const auto expect = [&](const char* name, int step, int start, int end, int ready) {
    const Span& span = SpanNamed(*program, sink.timeline, name, 0, step);
    EXPECT_EQ(span.start_ns, start * kSecond) << name << " of step " << step;
    EXPECT_EQ(span.end_ns, end * kSecond) << name << " of step " << step;
    EXPECT_EQ(span.ready_ns, ready * kSecond) << name << " of step " << step;
  };
  expect("a", 0, 0, 3, 0);
  expect("r", 0, 3, 9, 3);
  expect("b", 0, 3, 5, 0);
  expect("c", 0, 9, 10, 9);
  // The next step's a overwrites x, which c reads. It follows c on the same queue, so it needs no
  // edge and was issued at once.
  expect("a", 1, 10, 13, 0);
  expect("c", 1, 19, 20, 19);
  ASSERT_EQ(sink.timeline.steps.size(), 2U);
  EXPECT_EQ(sink.timeline.steps[0].end_ns, 10 * kSecond);
  EXPECT_EQ(sink.timeline.steps[1].start_ns, 10 * kSecond);
  EXPECT_EQ(sink.timeline.steps[1].end_ns, 20 * kSecond);
}

TEST(Executor, IssuesAtMostTheWindowAhead) {
  // Reduce waits only for its issue: op 3 may be issued when op 1 has ended.
  ProgramBuilder builder(1);
  builder.Opaque(0, Queue::kCompute, 1, {}, "c0");
  builder.Opaque(0, Queue::kCompute, 1, {}, "c1");
  builder.Opaque(0, Queue::kCompute, 1, {}, "c2");
  builder.Opaque(0, Queue::kReduce, 1, {}, "r");
  const auto program = builder.Take();
  VirtualClock clock;
  ExecutorOptions options;
  options.run_ahead = 2;
  auto executor = MakeExecutor(program, clock, options);
  RecordingSink sink;
  RunOk(*executor, 1, sink);
  EXPECT_EQ(SpanNamed(*program, sink.timeline, "r").start_ns, 2 * kSecond);
  EXPECT_EQ(SpanNamed(*program, sink.timeline, "r").ready_ns, 2 * kSecond);
}

TEST(Executor, HoldsAnInstructionBackUntilTheOneItComesAfter) {
  ProgramBuilder builder(1);
  builder.Opaque(0, Queue::kCompute, 4, {}, "slow");
  builder.Opaque(0, Queue::kGather, 1, {}, "throttled");
  builder.After(0, 0);
  const auto program = builder.Take();
  VirtualClock clock;
  auto executor = MakeExecutor(program, clock);
  RecordingSink sink;
  RunOk(*executor, 1, sink);
  EXPECT_EQ(SpanNamed(*program, sink.timeline, "throttled").start_ns, 4 * kSecond);
}

// Rank r works r + 1 seconds, then all meet: the sum starts at 4 s on every rank, which arrived at
// r + 1.
TEST(Executor, StartsCommunicationWhenAllPeersHaveCome) {
  constexpr int kRanks = 4;
  ProgramBuilder builder(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto x = builder.Buffer(rank, 64);
    builder.Opaque(rank, Queue::kCompute, rank + 1, {{x, kW}}, "work");
    builder.AllReduce(rank, Queue::kReduce, x, 64, "sum");
  }
  const auto program = builder.Take();
  VirtualClock clock;
  auto executor = MakeExecutor(program, clock);
  RecordingSink sink;
  RunOk(*executor, 3, sink);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Span& span = SpanNamed(*program, sink.timeline, "sum", rank);
    EXPECT_EQ(span.ready_ns, (rank + 1) * kSecond);
    EXPECT_EQ(span.start_ns, 4 * kSecond);
    EXPECT_EQ(span.end_ns, 4 * kSecond);
    EXPECT_EQ(span.bytes, 256);
    EXPECT_EQ(span.queue, Queue::kReduce);
  }
}

}  // namespace
}  // namespace foretrain
