// Stretches of ops as graphs, on an asynchronous device that can record graphs: which ops a graph
// may contain, that results are the same, and graphs that cannot be made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "sim/program/graphs/graph_stretches.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

Op OpOf(OpKind kind, Queue queue = Queue::kCompute) {
  Op op;
  op.kind = kind;
  op.queue = queue;
  return op;
}

TEST(WhyNotInGraph, NamesWhatChangesFromStepToStepOrNeedsTheHost) {
  for (const OpKind kind : {OpKind::kGemm, OpKind::kNormForward, OpKind::kAttentionForward,
                            OpKind::kCrossEntropyBackward, OpKind::kAdd, OpKind::kSquaredNorm}) {
    EXPECT_EQ(WhyNotInGraph(OpOf(kind)), "");
  }
  const std::pair<Op, const char*> others[] = {
      {OpOf(OpKind::kAdamW), "learning rate"},
      {OpOf(OpKind::kSgdAmend), "learning rate"},
      {OpOf(OpKind::kAllReduce, Queue::kReduce), "members meet"},
      {OpOf(OpKind::kRecv), "members meet"},
      {OpOf(OpKind::kAllToAllV), "members meet"},
      {OpOf(OpKind::kCopy, Queue::kH2d), "the host takes part"},
      {OpOf(OpKind::kLoadBatch, Queue::kH2d), "the host takes part"},
      {OpOf(OpKind::kHostRead, Queue::kHost), "the host's threads"},
      {OpOf(OpKind::kAdd, Queue::kCpu), "the host's threads"},
      {OpOf(OpKind::kOpaque), "no kernel"}};
  for (const auto& [op, why] : others) EXPECT_THAT(std::string(WhyNotInGraph(op)), HasSubstr(why));
  Op drops = OpOf(OpKind::kAttentionForward);
  drops.dropout = 0.1F;
  for (const OpKind kind : {OpKind::kSwigluForward, OpKind::kQuantize}) {
    Op counted = OpOf(kind);
    EXPECT_EQ(WhyNotInGraph(counted), "");
    counted.shape.members = 2;
    EXPECT_THAT(std::string(WhyNotInGraph(counted)), HasSubstr("follows counts"));
  }
  EXPECT_THAT(std::string(WhyNotInGraph(drops)), HasSubstr("random numbers"));
}

// compute: a b c | d waits | e f wakes | g   adamw   h of the next instruction
TEST(StretchesOf, CutsWhereQueuesMeetAndInstructionsEnd) {
  std::vector<StretchOp> ops(9);
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].steady = i != 7;  // adamw
  ops[3].waits = true;
  ops[5].wakes = true;
  ops[8].instruction = 1;
  EXPECT_THAT(StretchesOf(ops), testing::ElementsAre(3, 0, 0, 3, 0, 0, 1, 1, 1));
}

// Ops of other queues issued in between do not split a stretch.
TEST(StretchesOf, CountsQueueByQueue) {
  std::vector<StretchOp> ops(5);
  for (StretchOp& op : ops) op.steady = true;
  ops[1].queue = ops[3].queue = Queue::kReduce;
  EXPECT_THAT(StretchesOf(ops), testing::ElementsAre(3, 2, 0, 0, 0));
}

TrainingOptions WithGraphs(std::uint64_t delays) {
  Later().Reset();
  Later().delays = delays;
  TrainingOptions options;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  options.graphs = true;
  return options;
}

TEST(Graphs, AreMadeInTheSecondStepAndLaunchedFromThenOn) {
  const Trained expected = TrainTiny(TinyGpt(), TinyPlan());
  const Trained trained = TrainTiny(TinyGpt(), TinyPlan(), WithGraphs(1));
  EXPECT_TRUE(SameBits(expected, trained));
  const GraphUse& use = trained.summary.graphs;
  // At least each of 4 layers, forward and backward, for each of 8 micro-batches.
  EXPECT_GE(use.made, 2 * 4 * 8);
  EXPECT_EQ(use.launches, 3 * use.made);  // in the steps after the first of four
  EXPECT_EQ(Later().graph_launches, use.launches);
  EXPECT_GT(use.ops, 5 * use.launches);
  EXPECT_EQ(use.refused, 0);
  // The number that the forecast prices.
  const auto program = Compile(TinyGpt(), TinyPlan());
  ASSERT_TRUE(program.has_value());
  EXPECT_EQ(use.ops, 3 * OpsInGraphs(*program, program->ranks.front()));
  // With one compute queue the order is the same, so the same buffers are live.
  EXPECT_EQ(trained.summary.peak_bytes, expected.summary.peak_bytes);
  EXPECT_EQ(Later().Live(), 0);
}

TEST(Graphs, LeaveOutWhatDrawsRandomNumbersAndWhatFollowsCounts) {
  Plan plan = TinyPlan();
  plan.dropout = plan.attention_dropout = 0.1;
  const TrainingOptions options = WithGraphs(2);
  EXPECT_TRUE(SameBits(TrainTiny(TinyGpt(), plan), TrainTiny(TinyGpt(), plan, options)));
  EXPECT_GT(Later().graph_launches, 0);
  plan = TinyPlan();
  plan.dp = plan.ep = 2;
  plan.clip_norm = 0.5;
  EXPECT_TRUE(SameBits(TrainTiny(TinyExperts(), plan), TrainTiny(TinyExperts(), plan, options)));
}

TEST(Graphs, AnOpOfAGraphHasItsSpanWithinTheGraphs) {
  const Trained trained = TrainTiny(TinyGpt(), TinyPlan(), WithGraphs(3));
  std::map<std::pair<int, OpId>, const Span*> spans;
  for (const Span& span : trained.timeline.spans) {
    EXPECT_TRUE(spans.emplace(std::pair(span.step, span.op), &span).second);
  }
  std::int64_t empty = 0, in_first = 0;
  for (const auto& [key, span] : spans) {
    EXPECT_EQ(spans.count({0, key.second}), 1U);
    const bool is_empty = span->queue == Queue::kCompute && span->start_ns == span->end_ns;
    (span->step == 0 ? in_first : empty) += is_empty ? 1 : 0;
  }
  // All of a graph's ops except its first have empty spans; the first step runs op by op.
  EXPECT_LE(in_first, 1);
  EXPECT_GE(empty, trained.summary.graphs.ops - trained.summary.graphs.launches);
}

// Counts the ops announced, by step and op.
class CountingCapture : public OpCapture {
 public:
  void BeginStep(int, std::int64_t) override {}
  bool BeginOp(int, std::int64_t step, OpId op) override {
    const std::lock_guard<std::mutex> lock(mutex);
    ++begun[{step, op}];
    return true;
  }
  void EndOp() override {}
  bool RecordsWork() const override { return true; }

  std::mutex mutex;
  std::map<std::pair<std::int64_t, OpId>, int> begun;  // guarded by mutex
};

struct Ended {
  std::optional<Error> error;
  std::vector<float> losses;
  RunSummary summary;
};

Ended TrainOneLayer(const FtDeviceApi& api, const ExecutorOptions& options) {
  ModelSpec model = TinyGpt();
  model.layers = 1;
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value());
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  static RealClock clock;
  Ended ended;
  auto executor =
      Executor::Make(std::make_shared<const Program>(*std::move(program)), api, clock, options);
  if (!executor.has_value()) {
    ended.error = executor.error();
    return ended;
  }
  EXPECT_TRUE(FillParameters(**executor, InitialWeights(model, 1)).has_value());
  RecordingSink sink;
  auto summary = (*executor)->Run(4, **data, sink);
  if (!summary.has_value()) {
    ended.error = summary.error();
    return ended;
  }
  ended.summary = *summary;
  for (const StepScalars& scalars : sink.scalars) {
    if (scalars.loss.has_value()) ended.losses.push_back(*scalars.loss);
  }
  return ended;
}

ExecutorOptions GraphOptions() {
  ExecutorOptions options;
  options.graphs = true;
  options.record_spans = false;
  options.timeout_ns = 60'000'000'000;
  options.learning_rate = [](std::int64_t step) { return 1e-2F / static_cast<float>(step + 1); };
  return options;
}

// Making a graph announces the op of each kernel; a launch announces the step.
TEST(Graphs, TellARecordingWhoseTheirKernelsAre) {
  Later().Reset();
  ExecutorOptions options = GraphOptions();
  options.record_spans = true;
  const auto capture = std::make_shared<CountingCapture>();
  options.capture = capture;
  options.window.first_step = 2;
  const Ended ended = TrainOneLayer(LaterDeviceApi(CpuDeviceApi()), options);
  ASSERT_FALSE(ended.error.has_value()) << ended.error->message;
  // Made in step 1, and again in step 2, the first recorded one.
  const std::int64_t graphs = ended.summary.graphs.launches / 3;
  EXPECT_EQ(ended.summary.graphs.made, 2 * graphs);
  std::map<std::int64_t, std::int64_t> told, firsts;
  for (const auto& [key, count] : capture->begun) {
    told[key.first] += count;
    firsts[key.first] += count == 2 ? 1 : 0;
  }
  for (const std::int64_t step : {1, 2}) {
    EXPECT_EQ(firsts[step], graphs) << step;  // recorded and launched
    EXPECT_EQ(told[step], told[0] + graphs) << step;
  }
  const std::int64_t ops = ended.summary.graphs.ops / 3;
  EXPECT_EQ(told[3], told[0] - ops + graphs);
}

TEST(Graphs, StepsThatTheHostRecordsRunOpByOp) {
  Later().Reset();
  ExecutorOptions options = GraphOptions();
  options.record_spans = true;
  options.window.first_step = 2;
  const Ended ended = TrainOneLayer(LaterDeviceApi(CpuDeviceApi()), options);
  ASSERT_FALSE(ended.error.has_value()) << ended.error->message;
  EXPECT_GT(ended.summary.graphs.made, 0);
  EXPECT_EQ(ended.summary.graphs.launches, ended.summary.graphs.made);  // in step 1 only
}

TEST(Graphs, WhatCannotBeMadeRunsOpByOpAndLaunchesThatFailEndTheRun) {
  const FtDeviceApi& api = LaterDeviceApi(CpuDeviceApi());
  Later().Reset();
  ExecutorOptions plain = GraphOptions();
  plain.graphs = false;
  const Ended expected = TrainOneLayer(api, plain);
  ASSERT_EQ(expected.losses.size(), 4U);
  Later().Reset();
  const Ended whole = TrainOneLayer(api, GraphOptions());
  ASSERT_FALSE(whole.error.has_value()) << whole.error->message;
  EXPECT_EQ(whole.losses, expected.losses);
  const std::int64_t graphs = whole.summary.graphs.made, calls = Later().graph_calls;
  ASSERT_EQ(calls, 5 * graphs);  // begun, ended and launched in step 1, launched in steps 2 and 3
  std::int64_t refused = 0, failed = 0;
  for (std::int64_t failing = 0; failing < calls; ++failing) {
    Later().Reset();
    Later().graph_fail_at = failing;
    const Ended ended = TrainOneLayer(api, GraphOptions());
    EXPECT_EQ(Later().Live(), 0) << failing;
    if (ended.error.has_value()) {
      ++failed;
      EXPECT_THAT(ended.error->message, AllOf(ContainsRegex("^rank 0, step [123], [a-z]"),
                                              HasSubstr("the device was told to fail")));
      continue;
    }
    ++refused;
    EXPECT_EQ(ended.losses, expected.losses) << failing;
    EXPECT_EQ(ended.summary.graphs.refused, 1) << failing;
    EXPECT_EQ(ended.summary.graphs.made, graphs - 1) << failing;
    EXPECT_THAT(ended.summary.graphs.why_refused, HasSubstr("the device was told to fail"));
  }
  EXPECT_EQ(refused, 2 * graphs);  // by graph_begin or graph_end
  EXPECT_EQ(failed, 3 * graphs);   // by graph_launch
}

// A kernel that cannot be recorded: its call fails between graph_begin and graph_end.
TEST(Graphs, AKernelThatCannotBeNotedLeavesTheQueueAsItWas) {
  const FtDeviceApi& api = LaterDeviceApi(CpuDeviceApi());
  static FtDeviceApi refusing;
  refusing = api;
  static decltype(refusing.gemm) gemm;
  gemm = api.gemm;
  static std::atomic<bool> noting{false};
  static decltype(refusing.graph_begin) begin;
  static decltype(refusing.graph_end) end;
  begin = api.graph_begin;
  end = api.graph_end;
  refusing.graph_begin = [](FtQueue* queue) {
    noting = true;
    return begin(queue);
  };
  refusing.graph_end = [](FtQueue* queue, FtGraph** out) {
    noting = false;
    return end(queue, out);
  };
  refusing.gemm = [](FtQueue* queue, const FtGemm* g) {
    return noting ? FT_FAILED : gemm(queue, g);
  };
  Later().Reset();
  ExecutorOptions plain = GraphOptions();
  plain.graphs = false;
  const Ended expected = TrainOneLayer(api, plain);
  const Ended ended = TrainOneLayer(refusing, GraphOptions());
  ASSERT_FALSE(ended.error.has_value()) << ended.error->message;
  EXPECT_EQ(ended.losses, expected.losses);
  EXPECT_GT(ended.summary.graphs.refused, 0);
  EXPECT_EQ(Later().Live(), 0);
}

TEST(Graphs, ADeviceWithoutThemIsNamed) {
  const Ended ended = TrainOneLayer(CpuDeviceApi(), GraphOptions());
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->code, ErrorCode::kUnsupported);
  EXPECT_THAT(ended.error->message, HasSubstr("cpu: this device has no graphs"));
}

}  // namespace
}  // namespace foretrain
