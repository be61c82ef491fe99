#include "tests/runtime/device/later/later_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

ModelSpec OneLayer() {
  ModelSpec model = TinyGpt();
  model.layers = 1;
  return model;
}

// Two ranks with optimizer state in pinned host memory: uses arenas, pinned pools, copies, kernels
// and collectives.
Plan OffloadedPlan() {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  plan.global_batch = 4;
  plan.offload_optimizer = OffloadTarget::kHost;
  plan.stream_optimizer = true;
  return plan;
}

constexpr std::int64_t kQueries = 400;  // number of event_query calls to fail in a full sweep

// Expectations for a run in which a call was made to fail.
void ExpectEnded(const Ended& ended, bool running) {
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_THAT(ended.error->message, HasSubstr("the device was told to fail"));
  if (running) {
    EXPECT_THAT(ended.error->message, StartsWith("rank "));
  }
  EXPECT_LT(ended.seconds, 5.0);
  EXPECT_EQ(Later().Live(), 0);
}

}  // namespace

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
  ended.made = ended.ran = Later().calls;
  if (!executor.has_value()) {
    ended.error = executor.error();
    return ended;
  }
  RecordingSink sink;
  const std::int64_t start_ns = clock.Now();
  auto summary = (*executor)->Run(steps, **data, sink);
  ended.ran = Later().calls;
  ended.seconds = static_cast<double>(clock.Now() - start_ns) / 1e9;
  if (!summary.has_value()) ended.error = summary.error();
  return ended;
}

void FailCallsInTurn(std::int64_t parts) {
  Later().Reset();
  RealClock clock;
  const Ended well = TrainLater(kLaterSteps, clock, 60 * kSecond);
  ASSERT_FALSE(well.error.has_value()) << well.error->message;
  ASSERT_EQ(Later().Live(), 0);
  const std::int64_t calls = Later().calls, queries = Later().queries;
  ASSERT_GT(calls, 2 * well.made);
  const auto next = [](std::int64_t all, std::int64_t into) {
    return into == 0 ? 1 : std::max<std::int64_t>(1, all / into);
  };
  std::int64_t behind = 0;
  for (std::int64_t failing = 0; failing < calls;
       failing += failing < well.made ? 1 : next(calls, parts)) {
    SCOPED_TRACE(testing::Message() << "call " << failing << " of " << calls);
    Later().Reset();
    Later().fail_at = failing;
    const Ended ended = TrainLater(kLaterSteps, clock, 60 * kSecond);
    if (ended.ran > failing) {
      ExpectEnded(ended, failing >= well.made);
    } else {  // a failure of releasing cannot be reported
      ++behind;
      EXPECT_FALSE(ended.error.has_value()) << ended.error->message;
      EXPECT_EQ(Later().Live(), 0);
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_LE(behind, calls / 100);
  // Their number depends on time, and all are alike: a run may end before the one that would fail.
  for (std::int64_t failing = 0; failing < queries;
       failing += next(queries, parts == 0 ? kQueries : parts)) {
    SCOPED_TRACE(testing::Message() << "event_query " << failing << " of " << queries);
    Later().Reset();
    Later().query_fail_at = failing;
    const Ended ended = TrainLater(kLaterSteps, clock, 60 * kSecond);
    if (Later().queries > failing) ExpectEnded(ended, true);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace foretrain
