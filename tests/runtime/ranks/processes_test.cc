// Ranks as processes, simulated here by threads that share only sockets: each has its own group,
// clock and executor. tests/app/runs/processes_test.cc runs real processes.
#include "runtime/processes/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/processes/records.h"
#include "runtime/processes/socket_world.h"
#include "runtime/run/trainer.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/ranks/free_port.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 3;

// Stores a run's result and records.
struct Ended {
  std::optional<Error> error;
  RunSummary summary;
  RecordingSink sink;
};

struct Job {
  ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  std::int64_t timeout_ns = 30 * std::int64_t{1'000'000'000};
  std::int64_t steps = kSteps;
  FaultInjector* faults = nullptr;
  std::function<bool(int rank)> stop = {};
};

Ended RunProcess(const Job& job, int rank, int port) {
  Ended ended;
  const auto run = [&]() -> Result<void> {
    FT_ASSIGN(auto program, Compile(job.model, job.plan));
    FT_ASSIGN(
        std::shared_ptr<ProcessGroup> group,
        ProcessGroup::Join({rank, job.plan.World(), rank, "127.0.0.1", port}, job.timeout_ns));
    FT_ASSIGN(auto data, TokenData::FromText(TrainingText(), "text", job.model.vocab, job.plan));
    TrainJob train;
    train.program = std::make_shared<const Program>(std::move(program));
    train.steps = job.steps;
    train.learning_rate.peak = 1e-2;
    train.seed = 5;
    train.executor.local = {{rank, 0}};
    train.executor.world = SocketWorldMaker(group);
    train.executor.timeout_ns = job.timeout_ns;
    train.executor.faults = job.faults;
    train.processes = group.get();
    RealClock clock;
    FT_ASSIGN(ended.summary, Train(train, CpuDeviceApi(), clock, *data, ended.sink,
                                   [&] { return job.stop && job.stop(rank); }));
    return {};
  };
  if (const auto end = run(); !end.has_value()) ended.error = end.error();
  return ended;
}

std::vector<Ended> RunProcesses(const Job& job) {
  const int port = FreePort();
  std::vector<Ended> ends(static_cast<std::size_t>(job.plan.World()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.plan.World(); ++rank) {
    threads.emplace_back(
        [&, rank] { ends[static_cast<std::size_t>(rank)] = RunProcess(job, rank, port); });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

std::vector<float> LossesOf(const RecordingSink& sink) {
  std::vector<float> losses(kSteps);
  for (const StepScalars& scalars : sink.scalars) {
    if (scalars.loss) losses[static_cast<std::size_t>(scalars.step)] = *scalars.loss;
  }
  return losses;
}

void ExpectTrainsAsThreads(const ModelSpec& model, const Plan& plan, const std::string& name) {
  TrainingOptions options;
  options.steps = kSteps;
  const Trained expected = TrainTiny(model, plan, options);
  Job job;
  job.model = model;
  job.plan = plan;
  const std::vector<Ended> ends = RunProcesses(job);
  for (const Ended& end : ends) ASSERT_FALSE(end.error.has_value()) << name << end.error->message;
  EXPECT_EQ(LossesOf(ends.front().sink), expected.losses) << name;
  // Rank 0 has the records of all ranks, the others none.
  EXPECT_EQ(ends.front().summary.peak_bytes.size(), expected.summary.peak_bytes.size()) << name;
  EXPECT_EQ(ends.front().sink.timeline.spans.size(), expected.timeline.spans.size()) << name;
  EXPECT_EQ(ends.front().sink.timeline.steps.size(), expected.timeline.steps.size()) << name;
  EXPECT_TRUE(ends.back().sink.timeline.spans.empty()) << name;
}

TEST(Processes, TrainAsThreadsToTheBit) {
  for (const Case& one : Cases()) {
    const std::string name = one.name;
    if (name == "Dp2" || name == "Dp4Zero3" || name == "Dp2Pp2Zero2ZbH1") {
      ExpectTrainsAsThreads(TinyGpt(), one.plan, name);
    }
  }
  Plan plan = TinyPlan();
  plan.tp = 2;
  plan.clip_norm = 0.5;
  ExpectTrainsAsThreads(TinyGpt(), plan, "tp");
  plan = TinyPlan();
  plan.cp = 2;
  plan.cp_kind = kCpRing;
  ExpectTrainsAsThreads(TinyGpt(), plan, "ring");
  plan.cp_kind = kCpAllToAll;
  ExpectTrainsAsThreads(TinyGpt(), plan, "all-to-all");
  plan = TinyPlan();
  plan.dp = plan.ep = 2;
  ExpectTrainsAsThreads(TinyExperts(), plan, "experts");
}

// The clocks start at different moments; still, a collective ends on neither before it started on
// the other.
TEST(Processes, RecordOnOneClock) {
  Job job;
  job.plan.dp = 2;
  const std::vector<Ended> ends = RunProcesses(job);
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
  Job job;
  job.plan.dp = 2;
  job.faults = &faults;
  const std::vector<Ended> ends = RunProcesses(job);
  for (const Ended& end : ends) {
    ASSERT_TRUE(end.error.has_value());
    EXPECT_THAT(end.error->message, AllOf(HasSubstr("rank 1, step 1"), HasSubstr("injected")));
  }
}

TEST(Processes, AStopOfOneEndsAllAtOneStep) {
  for (const int asks : {0, 1}) {
    Job job;
    job.plan.dp = 2;
    job.steps = 1000;
    std::atomic<int> asked{0};
    job.stop = [&](int rank) { return rank == asks && ++asked > 2; };
    const std::vector<Ended> ends = RunProcesses(job);
    for (const Ended& end : ends) ASSERT_FALSE(end.error.has_value()) << end.error->message;
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
  Deliver(kSpans, PackSpans(std::span(&span, 1), ClockFit{.host_ns = 100}), sink);
  ASSERT_EQ(sink.timeline.spans.size(), 1U);
  EXPECT_EQ(sink.timeline.spans[0].start_ns, 110);
  EXPECT_EQ(sink.timeline.spans[0].end_ns, 120);
  EXPECT_EQ(sink.timeline.spans[0].ready_ns, 105);
  EXPECT_EQ(sink.timeline.spans[0].op, 77);
  Deliver(kRouting, PackRouting({4, 1, 2, 3, "ahead.", {9, 8}}), sink);
  ASSERT_EQ(sink.routing.size(), 1U);
  EXPECT_EQ(sink.routing[0].block, 2);
  EXPECT_EQ(sink.routing[0].router, "ahead.");
  EXPECT_THAT(sink.routing[0].counts, testing::ElementsAre(9, 8));
  Deliver(kRouting, "short", sink);  // ignored
  EXPECT_EQ(sink.routing.size(), 1U);
}

TEST(Processes, SummariesComeAsTheyWereAndAddUp) {
  RunSummary summary;
  summary.steps = 7;
  summary.seconds = 1.5;
  summary.graphs = {1, 20, 300, 4, "a graph of another stream"};
  summary.peak_by_space.resize(2);
  summary.peak_by_space[1][static_cast<std::size_t>(Space::kDevice)] = 4096;
  const RunSummary came = UnpackSummary(PackSummary(summary));
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
