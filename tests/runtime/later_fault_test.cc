// Calls that fail, work that breaks the device, and work that does not end, on a device that works
// later: the run ends in time, says where, and gives everything back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "kernels/cpu/cpu_device.h"
#include "later_device.h"
#include "runtime/data/token_data.h"
#include "training.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

ModelSpec OneLayer() {
  ModelSpec model = TinyGpt();
  model.layers = 1;
  return model;
}

// Two ranks whose optimizer state is pinned on the host: arenas, pinned pools, copies, kernels,
// collectives.
Plan OffloadedPlan() {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  plan.global_batch = 4;
  plan.offload_optimizer = OffloadTarget::kHost;
  plan.stream_optimizer = true;
  return plan;
}

struct Ended {
  std::optional<Error> error;
  std::int64_t made = 0;  // calls until the executor was made
  double seconds = 0;     // of the run
};

Ended TrainLater(std::int64_t steps, RunClock& clock, std::int64_t timeout_ns) {
  const FtDeviceApi& api = LaterDeviceApi(CpuDeviceApi());
  static const auto program = [] {
    auto compiled = Compile(OneLayer(), OffloadedPlan());
    EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
    return std::make_shared<const Program>(*std::move(compiled));
  }();
  auto data = TokenData::FromText(TrainingText(), "text", OneLayer().vocab, OffloadedPlan());
  ExecutorOptions options;
  options.timeout_ns = timeout_ns;
  Ended ended;
  auto executor = Executor::Make(program, api, clock, options);
  ended.made = Later().calls;
  if (!executor.has_value()) {
    ended.error = executor.error();
    return ended;
  }
  RecordingSink sink;
  const std::int64_t start_ns = clock.Now();
  auto summary = (*executor)->Run(steps, **data, sink);
  ended.seconds = static_cast<double>(clock.Now() - start_ns) / 1e9;
  if (!summary.has_value()) ended.error = summary.error();
  return ended;
}

constexpr std::int64_t kSecond = 1'000'000'000;

// Each call of making fails in turn, and of running, where their number depends on time, a hundred.
TEST(LaterFault, EveryCallThatFailsEndsTheRunAndLeavesNothing) {
  Later().Reset();
  RealClock clock;
  const Ended well = TrainLater(2, clock, 60 * kSecond);
  ASSERT_FALSE(well.error.has_value()) << well.error->message;
  ASSERT_EQ(Later().Live(), 0);
  const std::int64_t calls = Later().calls;
  ASSERT_GT(calls, 2 * well.made);
  // The second part's number of calls varies with how often events are asked for: a run may end
  // before the call that would fail.
  for (std::int64_t failing = 0; failing < calls * 3 / 4;
       failing += failing < well.made ? 1 : std::max<std::int64_t>(1, calls / 130)) {
    Later().Reset();
    Later().fail_at = failing;
    const Ended ended = TrainLater(2, clock, 60 * kSecond);
    if (Later().calls <= failing) continue;
    ASSERT_TRUE(ended.error.has_value()) << failing;
    EXPECT_THAT(ended.error->message, HasSubstr("the device was told to fail")) << failing;
    if (failing >= well.made) {
      EXPECT_THAT(ended.error->message, StartsWith("rank ")) << failing;
    }
    EXPECT_LT(ended.seconds, 5.0) << failing;
    EXPECT_EQ(Later().Live(), 0) << failing;
  }
}

TEST(LaterFault, WorkThatBreaksTheDeviceIsNamed) {
  Later().Reset();
  RealClock clock;
  ASSERT_FALSE(TrainLater(2, clock, 60 * kSecond).error.has_value());
  const std::int64_t works = Later().works;
  for (std::int64_t breaking = works / 3; breaking < works; breaking += works / 10) {
    Later().Reset();
    Later().break_at = breaking;
    const Ended ended = TrainLater(2, clock, 60 * kSecond);
    ASSERT_TRUE(ended.error.has_value()) << breaking;
    EXPECT_EQ(ended.error->code, ErrorCode::kIo);
    EXPECT_THAT(ended.error->message, AllOf(ContainsRegex("^rank [01], step [01], [a-z]"),
                                            HasSubstr("an illegal memory access")));
    EXPECT_EQ(Later().Live(), 0);
  }
}

TEST(LaterFault, WorkThatDoesNotEndIsATimeOutAndKeepsItsMemory) {
  Later().Reset();
  static RealClock clock;  // outlives the threads left behind
  ASSERT_FALSE(TrainLater(2, clock, 60 * kSecond).error.has_value());
  const std::int64_t kernels = Later().kernels;
  Later().Reset();
  Later().hang_at = kernels / 2;
  const Ended ended = TrainLater(2, clock, kSecond / 5);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->code, ErrorCode::kTimeout);
  EXPECT_THAT(ended.error->message, ContainsRegex("rank [01], step [01], "));
  EXPECT_LT(ended.seconds, 3.0);
  EXPECT_GT(Later().allocations, 0);  // the device may still write there
  Later().released = true;
  for (int i = 0; i < 5000 && Later().Live() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Later().Live(), 0);
}

// The host's thread waits for a copy itself, behind no op of a queue that is watched.
TEST(LaterFault, ReadsThatDoNotEndAreATimeOutAndKeepTheirMemory) {
  Later().Reset();
  static RealClock clock;  // outlives the threads left behind
  Later().hang_reads = true;
  const auto begin = std::chrono::steady_clock::now();
  const Ended ended = TrainLater(2, clock, kSecond / 5);
  // TrainLater has destroyed the executor too.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->code, ErrorCode::kTimeout);
  EXPECT_THAT(ended.error->message, ContainsRegex("rank [01], step [01], "));
  EXPECT_GT(Later().pinned, 0);  // where the copy may still write
  Later().released = true;
  for (int i = 0; i < 5000 && Later().Live() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Later().Live(), 0);
}

}  // namespace
}  // namespace foretrain
