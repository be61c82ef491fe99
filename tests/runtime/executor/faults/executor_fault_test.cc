// Behavior of a run when one op of one rank fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/text.h"
#include "runtime/executor/executor.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/executor/faults/mixed_program.h"
#include "tests/runtime/executor/recording_sink.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kSteps = 5;

// A single fault at one op.
struct OneFault : FaultInjector {
  OneFault(int the_rank, std::int64_t the_step, std::int32_t the_op, Fault the_fault,
           RunClock& run_clock)
      : rank(the_rank), step(the_step), op(the_op), fault(the_fault), clock(run_clock) {}
  Fault At(int at_rank, std::int64_t at_step, std::int32_t at_op) override {
    if (at_rank != rank || at_step != step || at_op != op) return {};
    ++hits;
    hit_ns = clock.Now();
    return fault;
  }
  int rank;
  std::int64_t step;
  std::int32_t op;
  Fault fault;
  RunClock& clock;
  std::atomic<int> hits{0};
  std::atomic<std::int64_t> hit_ns{0};
};

struct Outcome {
  Error error;
  std::vector<std::optional<Error>> ranks;
  std::string flight;
  std::int64_t end_ns = 0;
  std::int64_t after_fault_ns = 0;  // from the fault to the end
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
  outcome.after_fault_ns = outcome.end_ns - fault.hit_ns;
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
  const char* Name() const { return kMixedNames[static_cast<std::size_t>(Op())]; }
  // Rank 0 has no receive and the last rank no send: the fault is on a rank in between.
  int Culprit() const { return Ranks() / 2 - (Ranks() == 2 ? 1 : 0); }
  // "rank 1, step 4, " followed by instruction and op name.
  testing::Matcher<const std::string&> NamesTheCulprit() const {
    return AllOf(
        StartsWith("rank " + std::to_string(Culprit()) + ", step " + std::to_string(Step()) + ", "),
        HasSubstr(std::string(", ") + Name() + ": "));
  }
  void ExpectOthersAborted(const Outcome& outcome) const {
    ASSERT_EQ(outcome.ranks.size(), static_cast<std::size_t>(Ranks()));
    for (int rank = 0; rank < Ranks(); ++rank) {
      const auto& error = outcome.ranks[static_cast<std::size_t>(rank)];
      if (rank == Culprit() || !error.has_value()) continue;
      EXPECT_EQ(error->code, ErrorCode::kAborted) << error->message;
    }
  }
  // The ring holds the op at fault, and no more than it may of any rank.
  void ExpectRings(const Outcome& outcome) const {
    std::vector<int> records(static_cast<std::size_t>(Ranks()));
    bool culprit = false;
    for (const std::string_view line : Split(outcome.flight, '\n')) {
      if (line.empty()) continue;
      const auto rank = std::stoi(std::string(line.substr(5)));
      ++records[static_cast<std::size_t>(rank)];
      culprit =
          culprit || (rank == Culprit() && line.ends_with(std::string(", ") + Name() + " (step " +
                                                          std::to_string(Step()) + ")"));
    }
    EXPECT_TRUE(culprit) << outcome.flight;
    for (const int count : records) EXPECT_LE(count, 1'024);
  }
};

// Virtual time goes on only while every rank waits: a rank that is not woken ends at the time-out.
TEST_P(ExecutorFaults, AnErrorIsTheRunsAndNamesRankStepAndOp) {
  VirtualClock clock;
  OneFault fault(Culprit(), Step(), Op(), {Fault::Kind::kFail}, clock);
  const Outcome outcome = RunWith(Ranks(), fault, clock, 600 * kSecond);
  EXPECT_EQ(outcome.error.code, ErrorCode::kIo);
  EXPECT_THAT(outcome.error.message, NamesTheCulprit());
  EXPECT_THAT(outcome.error.message, HasSubstr("an injected fault"));
  ExpectOthersAborted(outcome);
  ExpectRings(outcome);
  EXPECT_EQ(outcome.hits, 1);
  EXPECT_LE(outcome.after_fault_ns, kSecond);
}

TEST_P(ExecutorFaults, AnExceptionIsCaughtAndNamed) {
  RealClock clock;
  OneFault fault(Culprit(), Step(), Op(), {Fault::Kind::kThrow}, clock);
  const Outcome outcome = RunWith(Ranks(), fault, clock, 600 * kSecond);
  EXPECT_THAT(outcome.error.message, NamesTheCulprit());
  EXPECT_THAT(outcome.error.message, HasSubstr("threw: an injected fault"));
  ExpectOthersAborted(outcome);
  // Real time, and the machine may be busy.
  EXPECT_LE(outcome.after_fault_ns, 10 * kSecond);
}

TEST_P(ExecutorFaults, AStallEndsTheRunInTimeAndIsNamed) {
  VirtualClock clock;
  OneFault fault(Culprit(), Step(), Op(), {Fault::Kind::kStall}, clock);
  const Outcome outcome = RunWith(Ranks(), fault, clock, 2 * kSecond);
  EXPECT_EQ(outcome.error.code, ErrorCode::kTimeout);
  // Five steps of a millisecond, the timeout, and a quarter of it if the rank itself notices.
  EXPECT_LE(outcome.end_ns, 3 * kSecond);
  EXPECT_THAT(outcome.error.message, HasSubstr("rank " + std::to_string(Culprit())));
  EXPECT_THAT(outcome.error.message, HasSubstr(std::string(", ") + Name()));
  EXPECT_THAT(outcome.error.message, HasSubstr("step " + std::to_string(Step())));
}

INSTANTIATE_TEST_SUITE_P(Matrix, ExecutorFaults,
                         testing::Combine(testing::Values(2, 4, 8, 32),
                                          testing::Range<std::int32_t>(kLoadOp, kSendOp + 1),
                                          testing::Values<std::int64_t>(0, 2, kSteps - 1)));

// With two ranks, no rank has a neighbour on either side.
INSTANTIATE_TEST_SUITE_P(InBetween, ExecutorFaults,
                         testing::Combine(testing::Values(4, 8, 32),
                                          testing::Range<std::int32_t>(kRecvOp, kReadOp + 1),
                                          testing::Values<std::int64_t>(0, 2, kSteps - 1)));

TEST(ExecutorFault, NamesBothSidesWhereARankMakesAnotherCall) {
  // The first two ops share a channel: in step 2 they are its fifth and sixth call.
  for (const auto& [op, number] : {std::pair{kAllReduceOp, "#4"}, std::pair{kReduceScatterOp, "#5"},
                                   std::pair{kAllGatherOp, "#2"}, std::pair{kSendOp, "#2"}}) {
    VirtualClock clock;
    OneFault fault(1, 2, op, {Fault::Kind::kOtherCall}, clock);
    const Outcome outcome = RunWith(4, fault, clock, 2 * kSecond);
    EXPECT_EQ(outcome.error.code, ErrorCode::kIo);
    EXPECT_THAT(outcome.error.message, HasSubstr(std::string("ranks disagree on call ") + number));
    EXPECT_THAT(outcome.error.message, AllOf(HasSubstr("rank 1 calls"), HasSubstr(" calls ")));
    EXPECT_EQ(outcome.end_ns / kSecond, 0) << "found at the call itself, not by a time-out";
  }
}

TEST(ExecutorFault, LeavesARingOfTheNewestOpsOfEachRank) {
  VirtualClock clock;
  OneFault fault(1, 4, kComputeOp, {Fault::Kind::kFail}, clock);
  const Outcome outcome = RunWith(4, fault, clock, 2 * kSecond);
  EXPECT_THAT(outcome.flight, HasSubstr("rank 1: "));
  EXPECT_THAT(outcome.flight, HasSubstr("compute (step 4)"));
  EXPECT_THAT(outcome.flight, HasSubstr("rank 3: "));
}

TEST(ExecutorFault, WaitsInRealTimeNoLongerThanTheTimeOut) {
  RealClock clock;
  OneFault fault(1, 2, kComputeOp, {Fault::Kind::kStall}, clock);
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
  static OneFault fault(1, 2, kComputeOp, hang, clock);
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
  const std::vector<float> first = LossesUnderDelays(0);
  EXPECT_GT(first[0], 0.0F);
  for (std::uint64_t seed = 1; seed < 10; ++seed) EXPECT_EQ(LossesUnderDelays(seed), first);
}

}  // namespace
}  // namespace foretrain
