// Programs that an executor refuses before it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "runtime/executor/executor.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/program_builder.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr Access kR = Access::kRead;
constexpr Access kW = Access::kWrite;

TEST(Executor, RefusesByNameWhatTheDeviceLacks) {
  ProgramBuilder builder(1);
  const auto x = builder.Buffer(0, 16);
  builder.Add(0, OpKind::kSwigluForward, Queue::kCompute, {{x, kR}, {x, kW}}, "mlp.swiglu");
  RealClock clock;
  auto made = Executor::Make(builder.Take(), MockDeviceApi(), clock, {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(made.error().message,
            "mock has no kernel swiglu_forward for f32, which op mlp.swiglu of mlp.swiglu needs");
}

TEST(Executor, RefusesAProgramThatDoesNotFitBeforeItAllocates) {
  const auto make = [](std::int64_t budget) {
    ProgramBuilder builder(2);
    builder.Buffer(0, 1 << 20, true, Category::kParameters);
    builder.Buffer(1, 1 << 20, true, Category::kParameters);
    builder.Buffer(1, 1 << 19, true, Category::kOptimizerState);
    RealClock clock;
    ExecutorOptions options;
    options.budget_bytes = budget;
    return Executor::Make(builder.Take(), MockDeviceApi(), clock, options);
  };
  Mock().Reset();
  // Rank 1 needs 4 MiB of parameters and 2 MiB of optimizer state.
  auto over = make(5 << 20);
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(over.error().message,
              HasSubstr("rank 1: the plan needs 6.00 MiB of device memory, the budget is 5.00 MiB; "
                        "at the peak: parameters 4.00 MiB, optimizer_state 2.00 MiB"));
  EXPECT_TRUE(make(6 << 20).has_value());
  Mock().capacity = 9 << 20;  // both ranks need 10 MiB
  auto full = make(0);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(full.error().message, HasSubstr("2 ranks on one device need 10.0 MiB"));
  Mock().Reset();
  EXPECT_EQ(Mock().live_allocations.load(), 0);
}

TEST(Executor, ReturnsAnErrorWhereverAnAllocationFails) {
  Mock().Reset();
  bool made_one = false;
  for (int call = 0; !made_one; ++call) {
    ASSERT_LT(call, 100);
    ProgramBuilder builder(2);
    for (int rank = 0; rank < 2; ++rank) {
      const auto x = builder.Buffer(rank, 64, true);
      builder.AllReduce(rank, Queue::kReduce, x, 64);
    }
    RealClock clock;
    Mock().calls = 0;
    Mock().fail_at = call;
    auto made = Executor::Make(builder.Take(), MockDeviceApi(), clock, {});
    made_one = made.has_value();
    if (!made_one) {
      EXPECT_THAT(made.error().message, HasSubstr("the mock was told to fail"));
    } else {
      // Made because no call was left to fail, not because a failure was dropped.
      EXPECT_LE(Mock().calls.load(), call);
    }
    Mock().fail_at = -1;
  }
  Mock().Reset();
  EXPECT_EQ(Mock().live_allocations.load(), 0);
}

TEST(Executor, RefusesAProgramOfRepresentatives) {
  ProgramBuilder builder(2);
  Program program = *builder.Take();
  program.ranks.pop_back();
  RealClock clock;
  auto made = Executor::Make(std::make_shared<const Program>(program), MockDeviceApi(), clock, {});
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("rank 1 is missing"));
}

}  // namespace
}  // namespace foretrain
