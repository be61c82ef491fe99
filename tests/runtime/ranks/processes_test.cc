// Ranks as processes, simulated here by threads that share only their transport: each has its own
// group, clock and executor. tests/app/runs/processes_test.cc runs real processes.
#include "runtime/processes/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "runtime/processes/records.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/processes/rank_process.h"
#include "tests/runtime/ranks/free_port.h"
#include "tests/runtime/ucx/needs_ucx.h"
#include "traces/metrics/data_wait.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 3;

// Spans of ops: how often a step waits for data depends on the machine's load.
std::ptrdiff_t OpsIn(const Timeline& timeline) {
  return std::count_if(timeline.spans.begin(), timeline.spans.end(),
                       [](const Span& span) { return !IsDataWait(span.op); });
}

void ExpectTrainsAsThreads(const ModelSpec& model, const Plan& plan, const std::string& name,
                           const std::shared_ptr<const Ucx>& ucx) {
  TrainingOptions options;
  options.steps = kSteps;
  const Trained expected = TrainTiny(model, plan, options);
  ProcessJob job;
  job.model = model;
  job.plan = plan;
  job.ucx = ucx;
  const std::vector<EndedProcess> ends = RunProcesses(job);
  for (const EndedProcess& end : ends)
    ASSERT_FALSE(end.error.has_value()) << name << end.error->message;
  EXPECT_EQ(LossesOf(ends.front().sink, kSteps), expected.losses) << name;
  // Rank 0 has the records of all ranks, the others none.
  EXPECT_EQ(ends.front().summary.peak_bytes.size(), expected.summary.peak_bytes.size()) << name;
  EXPECT_EQ(OpsIn(ends.front().sink.timeline), OpsIn(expected.timeline)) << name;
  EXPECT_EQ(ends.front().sink.timeline.steps.size(), expected.timeline.steps.size()) << name;
  EXPECT_TRUE(ends.back().sink.timeline.spans.empty()) << name;
}

void ExpectAllTrainAsThreads(const std::shared_ptr<const Ucx>& ucx) {
  for (const Case& one : Cases()) {
    const std::string name = one.name;
    if (name == "Dp2" || name == "Dp4Zero3" || name == "Dp2Pp2Zero2ZbH1") {
      ExpectTrainsAsThreads(TinyGpt(), one.plan, name, ucx);
    }
  }
  Plan plan = TinyPlan();
  plan.tp = 2;
  plan.clip_norm = 0.5;
  ExpectTrainsAsThreads(TinyGpt(), plan, "tp", ucx);
  plan = TinyPlan();
  plan.cp = 2;
  plan.cp_kind = kCpRing;
  ExpectTrainsAsThreads(TinyGpt(), plan, "ring", ucx);
  plan.cp_kind = kCpAllToAll;
  ExpectTrainsAsThreads(TinyGpt(), plan, "all-to-all", ucx);
  plan = TinyPlan();
  plan.dp = plan.ep = 2;
  ExpectTrainsAsThreads(TinyExperts(), plan, "experts", ucx);
}

TEST(Processes, TrainAsThreadsToTheBit) { ExpectAllTrainAsThreads(nullptr); }

struct ProcessesInSharedMemory : NeedsUcx {};

TEST_F(ProcessesInSharedMemory, TrainAsThreadsToTheBit) { ExpectAllTrainAsThreads(ucx); }

// The clocks start at different moments; still, a collective ends on neither before it started on
// the other.
TEST(Processes, RecordOnOneClock) {
  ProcessJob job;
  job.plan.dp = 2;
  const std::vector<EndedProcess> ends = RunProcesses(job);
  ASSERT_FALSE(ends.front().error.has_value()) << ends.front().error->message;
  std::map<std::pair<std::int32_t, OpId>, std::vector<Span>> calls;
  for (const Span& span : ends.front().sink.timeline.spans) {
    if (span.queue == Queue::kReduce) calls[{span.step, span.op}].push_back(span);
  }
  ASSERT_FALSE(calls.empty());
  for (const auto& [key, spans] : calls) {
    ASSERT_EQ(spans.size(), 2U);
    const std::int64_t slack_ns = 5'000'000;  // half the shortest exchange, on a busy machine
    EXPECT_GT(spans[0].end_ns + slack_ns, spans[1].ready_ns);
    EXPECT_GT(spans[1].end_ns + slack_ns, spans[0].ready_ns);
  }
}

class FailsOnce : public FaultInjector {
 public:
  Fault At(int rank, std::int64_t step, std::int32_t op) override {
    return rank == 1 && step == 1 && op == 3 ? Fault{Fault::Kind::kFail} : Fault{};
  }
};

TEST(Processes, AnErrorOfOneIsThatOfAll) {
  FailsOnce faults;
  ProcessJob job;
  job.plan.dp = 2;
  job.faults = &faults;
  const std::vector<EndedProcess> ends = RunProcesses(job);
  for (const EndedProcess& end : ends) {
    ASSERT_TRUE(end.error.has_value());
    EXPECT_THAT(end.error->message, AllOf(HasSubstr("rank 1, step 1"), HasSubstr("injected")));
  }
}

TEST(Processes, AStopOfOneEndsAllAtOneStep) {
  for (const int asks : {0, 1}) {
    ProcessJob job;
    job.plan.dp = 2;
    job.steps = 1000;
    std::atomic<int> asked{0};
    job.stop = [&](int rank) { return rank == asks && ++asked > 2; };
    const std::vector<EndedProcess> ends = RunProcesses(job);
    for (const EndedProcess& end : ends) ASSERT_FALSE(end.error.has_value()) << end.error->message;
    EXPECT_EQ(ends[0].summary.steps, ends[1].summary.steps);
    EXPECT_GE(ends[0].summary.steps, 2);
    EXPECT_LT(ends[0].summary.steps, 20);
    EXPECT_TRUE(ends[0].summary.stopped);
  }
}

TEST(Processes, OneThatDoesNotComeIsNamed) {
  const int port = FreePort();
  const auto alone = ProcessGroup::Join({0, 3, 0, "127.0.0.1", port}, 200'000'000);
  ASSERT_FALSE(alone.has_value());
  EXPECT_EQ(alone.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(alone.error().message, HasSubstr("for the processes of rank 1, 2"));
}

// Two members of one run, connected by a group only.
struct Pair {
  std::shared_ptr<ProcessGroup> first, second;
};
Pair MakePair() {
  const int port = FreePort();
  Pair pair;
  std::thread other([&] {
    auto joined = ProcessGroup::Join({1, 2, 1, "127.0.0.1", port}, 10'000'000'000);
    ASSERT_TRUE(joined.has_value()) << joined.error().message;
    pair.second = *std::move(joined);
  });
  auto joined = ProcessGroup::Join({0, 2, 0, "127.0.0.1", port}, 10'000'000'000);
  EXPECT_TRUE(joined.has_value()) << joined.error().message;
  if (joined.has_value()) pair.first = *std::move(joined);
  other.join();
  return pair;
}

TEST(Processes, RefuseAnotherProgram) {
  Pair pair = MakePair();
  ASSERT_TRUE(pair.first->Agree("program", "17").has_value());
  EXPECT_TRUE(pair.second->Agree("program", "17").has_value());
  ASSERT_TRUE(pair.first->Agree("command", "seed 1").has_value());
  const auto other = pair.second->Agree("command", "seed 2");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message,
              AllOf(HasSubstr("rank 1 has another command"), HasSubstr("seed 2, not seed 1")));
}

TEST(Processes, AFailureBeforeTheRunIsToldToo) {
  Pair pair = MakePair();
  pair.second->TellFailure({ErrorCode::kInvalidArgument, "rank 1: no such file"});
  RealClock clock;
  RunControl control;
  for (int i = 0; i < 200; ++i) {
    const auto entered = pair.first->Enter(clock, control);
    if (!entered.has_value()) {
      EXPECT_THAT(entered.error().message, HasSubstr("no such file"));
      break;
    }
    if (control.Aborted()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  pair.first->Leave();
}

TEST(Processes, RecordsComeAsTheyWere) {
  RecordingSink sink;
  Span span;
  span.start_ns = 10;
  span.end_ns = 20;
  span.ready_ns = 5;
  span.rank = 3;
  span.op = 77;
  EXPECT_TRUE(Deliver(kSpans, PackSpans(std::span(&span, 1), ClockFit{.host_ns = 100}),
                      {.rank = 3, .world = 4}, sink));
  ASSERT_EQ(sink.timeline.spans.size(), 1U);
  EXPECT_EQ(sink.timeline.spans[0].start_ns, 110);
  EXPECT_EQ(sink.timeline.spans[0].end_ns, 120);
  EXPECT_EQ(sink.timeline.spans[0].ready_ns, 105);
  EXPECT_EQ(sink.timeline.spans[0].op, 77);
  EXPECT_TRUE(Deliver(kRouting, PackRouting({4, 1, 2, 3, "ahead.", {9, 8}}),
                      {.rank = 1, .world = 4}, sink));
  ASSERT_EQ(sink.routing.size(), 1U);
  EXPECT_EQ(sink.routing[0].block, 2);
  EXPECT_EQ(sink.routing[0].router, "ahead.");
  EXPECT_THAT(sink.routing[0].counts, testing::ElementsAre(9, 8));
  EXPECT_FALSE(Deliver(kRouting, "short", {.rank = 1, .world = 4}, sink));
  EXPECT_EQ(sink.routing.size(), 1U);
}

TEST(Processes, SummariesComeAsTheyWereAndAddUp) {
  RunSummary summary;
  summary.steps = 7;
  summary.seconds = 1.5;
  summary.graphs = {1, 20, 300, 4, "a graph of another stream"};
  summary.peak_by_space.resize(2);
  summary.peak_by_space[1][static_cast<std::size_t>(Space::kDevice)] = 4096;
  const auto unpacked = UnpackSummary(PackSummary(summary));
  ASSERT_TRUE(unpacked.has_value());
  const RunSummary& came = *unpacked;
  EXPECT_EQ(came.steps, 7);
  EXPECT_EQ(came.seconds, 1.5);
  EXPECT_EQ(came.graphs.launches, 20);
  EXPECT_EQ(came.graphs.why_refused, "a graph of another stream");
  EXPECT_THAT(came.peak_bytes, testing::ElementsAre(0, 4096));
  RunSummary all = came;
  AddSummary(came, all);
  EXPECT_EQ(all.graphs.ops, 600);
  EXPECT_EQ(all.steps, 7);
  EXPECT_THAT(all.peak_bytes, testing::ElementsAre(0, 4096, 0, 4096));
}

}  // namespace
}  // namespace foretrain
