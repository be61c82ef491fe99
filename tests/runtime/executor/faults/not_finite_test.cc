// Steps whose loss or gradient is infinite or NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/executor/faults/spoiled_steps.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class SpoiledGradient : public testing::TestWithParam<std::tuple<int, float>> {};

TEST_P(SpoiledGradient, EndsTheRunBeforeTheUpdateAndNamesTheOp) {
  const auto [rank, value] = GetParam();
  Spoiler spoiler;
  spoiler.rank = rank;
  spoiler.value = value;
  const Ended ended =
      RunSteps(TinyGpt(), ClippedPlan(), 5, &spoiler, Named("mlp.down.weight_grad"));
  ASSERT_FALSE(ended.summary.has_value());
  EXPECT_EQ(ended.summary.error().code, ErrorCode::kNotFinite);
  EXPECT_THAT(ended.summary.error().message,
              AllOf(StartsWith("rank " + std::to_string(rank) + ", step 2, backward layer "),
                    HasSubstr("mlp.down.weight_grad: 1 of the 2048 values of "),
                    HasSubstr("the first at index 0; the parameters are those before this step")));
  EXPECT_EQ(ended.steps, 3);
  EXPECT_TRUE(AreEqual(ended.parameters, RunSteps(TinyGpt(), ClippedPlan(), 2).parameters));
}

INSTANTIATE_TEST_SUITE_P(Matrix, SpoiledGradient,
                         testing::Combine(testing::Values(0, 1, 2, 3),
                                          testing::Values(kNan, kInfinity, -kInfinity)));

TEST(SpoiledGradients, EndTheRunInItsFirstStepToo) {
  Spoiler spoiler;
  spoiler.step = 0;
  const Ended ended =
      RunSteps(TinyGpt(), ClippedPlan(), 5, &spoiler, Named("mlp.down.weight_grad"));
  ASSERT_FALSE(ended.summary.has_value());
  EXPECT_EQ(ended.summary.error().code, ErrorCode::kNotFinite);
  EXPECT_THAT(ended.summary.error().message, StartsWith("rank 0, step 0, backward layer "));
}

// Each of them reads the norm in kernels of its own.
TEST(SpoiledGradients, ReachNoParameterByAnyOptimizer) {
  for (const OptimizerKind optimizer :
       {OptimizerKind::kAdamW, OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kLion,
        OptimizerKind::kMuon, OptimizerKind::kAdafactor}) {
    SCOPED_TRACE(static_cast<int>(optimizer));
    Plan plan = TinyPlan();
    plan.optimizer = optimizer;
    plan.clip_norm = 1;
    Spoiler spoiler;
    const Ended ended = RunSteps(TinyGpt(), plan, 5, &spoiler, Named("mlp.down.weight_grad"));
    ASSERT_FALSE(ended.summary.has_value());
    EXPECT_THAT(ended.summary.error().message, HasSubstr("mlp.down.weight_grad: 1 of the "));
    EXPECT_TRUE(AreEqual(ended.parameters, RunSteps(TinyGpt(), plan, 2).parameters));
  }
}

TEST(NotFinite, NamesAnInputThatIsNotFiniteToo) {
  Plan plan = TinyPlan();
  plan.clip_norm = 1;
  Spoiler spoiler;
  const Ended ended = RunSteps(TinyGpt(), plan, 5, &spoiler, Named("mlp.up"));
  ASSERT_FALSE(ended.summary.has_value());
  EXPECT_THAT(ended.summary.error().message, HasSubstr(", mlp.up: 1 of the "));
}

// The second run of the step, on the same data, is finite.
TEST(NotFinite, TellsAFaultThatDoesNotRepeat) {
  Spoiler spoiler;
  spoiler.rank = 3;
  spoiler.times = 1;
  const Ended ended = RunSteps(TinyGpt(), ClippedPlan(), 5, &spoiler, Named("mlp.up"));
  ASSERT_FALSE(ended.summary.has_value());
  EXPECT_EQ(ended.summary.error().code, ErrorCode::kNotFinite);
  EXPECT_THAT(ended.summary.error().message,
              AllOf(StartsWith("step 2: "), HasSubstr("a fault of the machine is likely")));
}

TEST(NotFinite, EndsARunWithoutANormByItsLoss) {
  Plan plan = TinyPlan();
  plan.pp = 2;
  Spoiler spoiler;
  const Ended ended = RunSteps(TinyGpt(), plan, 5, &spoiler, Named("mlp.up"));
  ASSERT_FALSE(ended.summary.has_value());
  EXPECT_EQ(ended.summary.error().code, ErrorCode::kNotFinite);
  EXPECT_THAT(ended.summary.error().message,
              AllOf(HasSubstr("step 2, "), HasSubstr("the loss is "), HasSubstr("--clip 1")));
}

TEST(NotFinite, GoesOnWhereALossScaleSkipsTheStep) {
  Plan plan = ClippedPlan();
  plan.precision = Precision::kFp16;
  plan.loss_scale = 1024;
  Spoiler spoiler;
  spoiler.times = 1;
  const Ended ended = RunSteps(TinyGpt(), plan, 5, &spoiler, Named("mlp.down.weight_grad"));
  EXPECT_TRUE(ended.summary.has_value()) << ended.summary.error().message;
}

// No op of a healthy step writes an infinity or NaN that the search would take for the cause, with
// memory poisoned by NaN.
TEST(NotFinite, FindsNothingInTheHealthyStepsOfAllPlans) {
  int checked = 0;
  for (const MatrixCase& one : CoverPairs(1).cases) {
    Plan plan = one.plan;
    plan.clip_norm = 1;
    if (plan.loss_scale > 0 || !ValidatePlan(plan, one.model).has_value()) continue;
    Spoiler spoiler;
    spoiler.step = 1;
    spoiler.times = 1;
    const Ended ended = RunSteps(one.model, plan, 2, &spoiler,
                                 [](const Op& op) { return op.kind == OpKind::kSquaredNorm; });
    if (ended.summary.has_value()) continue;
    ++checked;
    EXPECT_THAT(ended.summary.error().message, HasSubstr("a fault of the machine is likely"))
        << one.name;
  }
  EXPECT_GT(checked, 20);
}

}  // namespace
}  // namespace foretrain
