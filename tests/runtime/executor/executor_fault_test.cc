// Behavior of a run when one op of one rank fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "runtime/executor/executor.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kSteps = 5;

// A single fault at one op.
struct OneFault : FaultInjector {
  OneFault(int the_rank, std::int64_t the_step, std::int32_t the_op, Fault the_fault)
      : rank(the_rank), step(the_step), op(the_op), fault(the_fault) {}
  Fault At(int at_rank, std::int64_t at_step, std::int32_t at_op) override {
    if (at_rank != rank || at_step != step || at_op != op) return {};
    ++hits;
    return fault;
  }
  int rank;
  std::int64_t step;
  std::int32_t op;
  Fault fault;
  std::atomic<int> hits{0};
};

// The eight kinds of op that can fail, by number in the step.
enum OpNumber : std::int32_t {
  kLoadOp,
  kComputeOp,
  kAllReduceOp,
  kReduceScatterOp,
  kAllGatherOp,
  kSendOp,  // on all but the last rank; receives come after it
};

// Every rank: load, compute, three collectives, a send to the next rank, a receive from the
// previous one, an update and the host's read.
std::shared_ptr<const Program> MixedProgram(int ranks) {
  ProgramBuilder builder(ranks);
  constexpr Access kR = Access::kRead;
  constexpr Access kW = Access::kWrite;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto ids = builder.Buffer(rank, 8, false, Category::kStaging);
    const auto x = builder.Buffer(rank, 16 * ranks, true);
    const auto shard = builder.Buffer(rank, 16, true);
    const auto got = builder.Buffer(rank, 16, true);
    builder.Add(rank, OpKind::kLoadBatch, Queue::kH2d, {{ids, kW}, {-1}}, "load");
    builder.Opaque(rank, Queue::kCompute, 0.001, {{ids, kR}, {x, Access::kReadWrite}}, "compute");
    builder.AllReduce(rank, Queue::kReduce, x, 16 * ranks, "grads.bucket2");
    Op& scatter = builder.Add(rank, OpKind::kReduceScatter, Queue::kReduce, {{x, kR}, {shard, kW}},
                              "scatter");
    scatter.group = GroupKind::kWorld;
    scatter.shape.elements = 16 * ranks;
    Op& gather =
        builder.Add(rank, OpKind::kAllGather, Queue::kGather, {{shard, kR}, {x, kW}}, "gather");
    gather.group = GroupKind::kWorld;
    gather.shape.elements = 16 * ranks;
    if (rank + 1 < ranks) {
      Op& send = builder.Add(rank, OpKind::kSend, Queue::kSendNext, {{shard, kR}}, "send");
      send.group = GroupKind::kNext;
      send.shape.elements = 16;
    }
    if (rank > 0) {
      Op& receive = builder.Add(rank, OpKind::kRecv, Queue::kRecvPrev, {{got, kW}}, "recv");
      receive.group = GroupKind::kPrev;
      receive.shape.elements = 16;
    }
    builder.Add(rank, OpKind::kSquaredNorm, Queue::kCompute, {{x, kR}, {got, kW, 0, 1}}, "norm")
        .shape.elements = 16;
    builder.ReadLoss(rank, got);
  }
  return builder.Take();
}

struct Outcome {
  Error error;
  std::vector<std::optional<Error>> ranks;
  std::string flight;
  std::int64_t end_ns = 0;
  std::int32_t last_op_of_culprit = -1;
  int hits = 0;
};

Outcome RunWith(int ranks, OneFault& fault, RunClock& clock, std::int64_t timeout_ns) {
  const auto program = MixedProgram(ranks);
  ExecutorOptions options;
  options.timeout_ns = timeout_ns;
  options.faults = &fault;
  auto executor = Executor::Make(program, MockDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  RecordingSink sink;
  CountingBatches batches;
  auto summary = (*executor)->Run(kSteps, batches, sink);
  Outcome outcome;
  EXPECT_FALSE(summary.has_value());
  if (!summary.has_value()) outcome.error = summary.error();
  outcome.ranks = (*executor)->rank_errors();
  outcome.flight = (*executor)->FlightText();
  outcome.end_ns = clock.Now();
  outcome.hits = fault.hits;
  // A second run is refused.
  EXPECT_FALSE((*executor)->Run(1, batches, sink).has_value());
  return outcome;
}

class ExecutorFaults : public testing::TestWithParam<std::tuple<int, std::int32_t, std::int64_t>> {
 protected:
  int Ranks() const { return std::get<0>(GetParam()); }
  std::int32_t Op() const { return std::get<1>(GetParam()); }
  std::int64_t Step() const { return std::get<2>(GetParam()); }
  // Rank 0 has no receive and the last rank no send: the fault is on a rank in between.
  int Culprit() const { return Ranks() / 2 - (Ranks() == 2 ? 1 : 0); }
  // "rank 1, step 4, " followed by instruction and op name.
  testing::Matcher<const std::string&> NamesTheCulprit() const {
    static constexpr const char* kNames[] = {"load",    "compute", "grads.bucket2",
                                             "scatter", "gather",  "send"};
    return AllOf(
        StartsWith("rank " + std::to_string(Culprit()) + ", step " + std::to_string(Step()) + ", "),
        HasSubstr(std::string(", ") + kNames[Op()] + ": "));
  }
  void ExpectOthersAborted(const Outcome& outcome) const {
    ASSERT_EQ(outcome.ranks.size(), static_cast<std::size_t>(Ranks()));
    for (int rank = 0; rank < Ranks(); ++rank) {
      const auto& error = outcome.ranks[static_cast<std::size_t>(rank)];
      if (rank == Culprit() || !error.has_value()) continue;
      EXPECT_EQ(error->code, ErrorCode::kAborted) << error->message;
    }
  }
};

TEST_P(ExecutorFaults, AnErrorIsTheRunsAndNamesRankStepAndOp) {
  RealClock clock;
  OneFault fault(Culprit(), Step(), Op(), {Fault::Kind::kFail});
  const Outcome outcome = RunWith(Ranks(), fault, clock, 600 * kSecond);
  EXPECT_EQ(outcome.error.code, ErrorCode::kIo);
  EXPECT_THAT(outcome.error.message, NamesTheCulprit());
  EXPECT_THAT(outcome.error.message, HasSubstr("an injected fault"));
  ExpectOthersAborted(outcome);
  EXPECT_EQ(outcome.hits, 1);
}

TEST_P(ExecutorFaults, AnExceptionIsCaughtAndNamed) {
  RealClock clock;
  OneFault fault(Culprit(), Step(), Op(), {Fault::Kind::kThrow});
  const Outcome outcome = RunWith(Ranks(), fault, clock, 600 * kSecond);
  EXPECT_THAT(outcome.error.message, NamesTheCulprit());
  EXPECT_THAT(outcome.error.message, HasSubstr("threw: an injected fault"));
  ExpectOthersAborted(outcome);
}

TEST_P(ExecutorFaults, AStallEndsTheRunInTimeAndIsNamed) {
  VirtualClock clock;
  OneFault fault(Culprit(), Step(), Op(), {Fault::Kind::kStall});
  const Outcome outcome = RunWith(Ranks(), fault, clock, 2 * kSecond);
  EXPECT_EQ(outcome.error.code, ErrorCode::kTimeout);
  // Five steps of a millisecond, the timeout, and a quarter of it if the rank itself notices.
  EXPECT_LE(outcome.end_ns, 3 * kSecond);
  EXPECT_THAT(outcome.error.message, HasSubstr("rank " + std::to_string(Culprit())));
  static constexpr const char* kNames[] = {"load",    "compute", "grads.bucket2",
                                           "scatter", "gather",  "send"};
  EXPECT_THAT(outcome.error.message, HasSubstr(std::string(", ") + kNames[Op()]));
  EXPECT_THAT(outcome.error.message, HasSubstr("step " + std::to_string(Step())));
}

INSTANTIATE_TEST_SUITE_P(Matrix, ExecutorFaults,
                         testing::Combine(testing::Values(2, 4, 8),
                                          testing::Range<std::int32_t>(kLoadOp, kSendOp + 1),
                                          testing::Values<std::int64_t>(0, 2, kSteps - 1)));

TEST(ExecutorFault, NamesBothSidesWhereARankMakesAnotherCall) {
  // The first two ops share a channel: in step 2 they are its fifth and sixth call.
  for (const auto& [op, number] : {std::pair{kAllReduceOp, "#4"}, std::pair{kReduceScatterOp, "#5"},
                                   std::pair{kAllGatherOp, "#2"}, std::pair{kSendOp, "#2"}}) {
    VirtualClock clock;
    OneFault fault(1, 2, op, {Fault::Kind::kOtherCall});
    const Outcome outcome = RunWith(4, fault, clock, 2 * kSecond);
    EXPECT_EQ(outcome.error.code, ErrorCode::kIo);
    EXPECT_THAT(outcome.error.message, HasSubstr(std::string("ranks disagree on call ") + number));
    EXPECT_THAT(outcome.error.message, AllOf(HasSubstr("rank 1 calls"), HasSubstr(" calls ")));
    EXPECT_EQ(outcome.end_ns / kSecond, 0) << "found at the call itself, not by a time-out";
  }
}

TEST(ExecutorFault, LeavesARingOfTheNewestOpsOfEachRank) {
  VirtualClock clock;
  OneFault fault(1, 4, kComputeOp, {Fault::Kind::kFail});
  const Outcome outcome = RunWith(4, fault, clock, 2 * kSecond);
  EXPECT_THAT(outcome.flight, HasSubstr("rank 1: "));
  EXPECT_THAT(outcome.flight, HasSubstr("compute (step 4)"));
  EXPECT_THAT(outcome.flight, HasSubstr("rank 3: "));
}

TEST(ExecutorFault, WaitsInRealTimeNoLongerThanTheTimeOut) {
  RealClock clock;
  OneFault fault(1, 2, kComputeOp, {Fault::Kind::kStall});
  const Outcome outcome = RunWith(4, fault, clock, kSecond / 5);
  EXPECT_EQ(outcome.error.code, ErrorCode::kTimeout);
  EXPECT_THAT(outcome.error.message, HasSubstr("compute"));
}

// A kernel that never returns: the run ends and leaves its thread behind.
std::mutex hang_mutex;
std::condition_variable hang_condition;
bool hang_over = false;  // guarded by hang_mutex
std::atomic<bool> hang_left{false};

void Hang() {
  std::unique_lock<std::mutex> lock(hang_mutex);
  hang_condition.wait(lock, [] { return hang_over; });
  hang_left = true;
}

TEST(ExecutorFault, LeavesAThreadBehindThatNeverReturns) {
  static RealClock clock;  // outlives the thread left behind
  Fault hang{Fault::Kind::kHang};
  hang.hang = &Hang;
  static OneFault fault(1, 2, kComputeOp, hang);
  const Outcome outcome = RunWith(4, fault, clock, kSecond / 5);
  EXPECT_EQ(outcome.error.code, ErrorCode::kTimeout);
  EXPECT_THAT(outcome.error.message, HasSubstr("left behind"));
  {
    const std::lock_guard<std::mutex> lock(hang_mutex);
    hang_over = true;
  }
  hang_condition.notify_all();
  // The thread finds its state intact and ends.
  while (!hang_left) std::this_thread::yield();
}

TEST(ExecutorFault, GivesTheSameBitsUnderRandomDelays) {
  struct Jitter : FaultInjector {
    explicit Jitter(std::uint64_t the_seed) : seed(the_seed) {}
    Fault At(int rank, std::int64_t step, std::int32_t op) override {
      const std::uint64_t mixed =
          (seed * 1000003 + static_cast<std::uint64_t>(rank * 131 + step * 17 + op)) *
          0x9e3779b97f4a7c15U;
      Fault fault{Fault::Kind::kDelay};
      fault.delay_ns = static_cast<std::int64_t>(mixed >> 43);  // up to 2 ms
      return fault;
    }
    std::uint64_t seed;
  };
  std::vector<std::vector<float>> losses;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    VirtualClock clock;
    Jitter jitter(seed);
    ExecutorOptions options;
    options.faults = &jitter;
    auto executor = Executor::Make(MixedProgram(4), MockDeviceApi(), clock, options);
    ASSERT_TRUE(executor.has_value());
    for (int rank = 0; rank < 4; ++rank) {
      auto* x = reinterpret_cast<float*>((*executor)->Arena(rank).BufferAt(1));
      for (int i = 0; i < 64; ++i) x[i] = 0.1F * static_cast<float>(rank * 64 + i);
    }
    RecordingSink sink;
    CountingBatches batches;
    ASSERT_TRUE((*executor)->Run(kSteps, batches, sink).has_value());
    std::vector<float> seen(4 * kSteps);
    for (const StepScalars& scalars : sink.scalars) {
      seen[static_cast<std::size_t>(scalars.step * 4 + scalars.rank)] = *scalars.loss;
    }
    losses.push_back(seen);
  }
  EXPECT_GT(losses[0][0], 0.0F);
  for (const auto& other : losses) EXPECT_EQ(other, losses[0]);
}

}  // namespace
}  // namespace foretrain
