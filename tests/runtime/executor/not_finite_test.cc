// Steps whose loss or gradient is infinite or NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "tests/runtime/equality/plan_matrix.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Changes what one op of one rank has written, at one step, as often as told.
struct Spoiler : FaultInjector {
  Fault At(int at_rank, std::int64_t at_step, std::int32_t at_op) override {
    if (at_rank != rank || at_step != step || at_op != op) return {};
    // Asked before and after the op.
    return asked++ / 2 < times ? Fault{.kind = Fault::Kind::kValue, .value = value} : Fault{};
  }
  int rank = 0;
  std::int64_t step = 2;
  std::int32_t op = 0;
  float value = kNan;
  int times = std::numeric_limits<int>::max();
  std::atomic<int> asked{0};
};

using IsOp = std::function<bool(const Op&)>;
IsOp Named(std::string name) {
  return [name = std::move(name)](const Op& op) { return op.name == name; };
}

// Number of the rank's last such op.
std::int32_t LastOp(const Program& program, int rank, const IsOp& is) {
  const RankProgram& of_rank = program.ranks[static_cast<std::size_t>(rank)];
  const std::vector<OpRef> refs = OpRefs(program, of_rank);
  std::int32_t found = -1;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (is(OpAt(program, of_rank, refs[i]))) found = static_cast<std::int32_t>(i);
  }
  EXPECT_GE(found, 0);
  return found;
}

struct Ended {
  Result<RunSummary> summary;
  TensorMap parameters;
  std::int64_t steps = 0;  // losses that were reported
};

// With a spoiler: of the last op that `is` accepts on its rank.
Ended RunSteps(const ModelSpec& model, const Plan& plan, std::int64_t steps,
               Spoiler* spoiler = nullptr, const IsOp& is = nullptr) {
  auto program = std::make_shared<const Program>(*Compile(model, plan));
  if (spoiler != nullptr) spoiler->op = LastOp(*program, spoiler->rank, is);
  auto data = *TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  RealClock clock;
  ExecutorOptions options;
  options.timeout_ns = 60'000'000'000;
  options.faults = spoiler;
  options.poison = true;
  options.ends_if_not_finite = true;
  options.learning_rate = [](std::int64_t) { return 1e-2F; };
  const auto executor = *Executor::Make(program, CpuDeviceApi(), clock, options);
  EXPECT_TRUE(FillParameters(*executor, InitialWeights(model, 5)).has_value());
  RecordingSink sink;
  Ended ended{executor->Run(steps, *data, sink), {}, 0};
  ended.parameters = GatherTensors(*executor, GatheredState::kParameters);
  for (const StepScalars& scalars : sink.scalars) {
    ended.steps = std::max(ended.steps, scalars.step + 1);
  }
  return ended;
}

bool AreEqual(const TensorMap& a, const TensorMap& b) {
  bool same = a.size() == b.size() && !a.empty();
  for (const auto& [name, tensor] : a) same = same && tensor.values == b.at(name).values;
  return same;
}

Plan ClippedPlan() {
  Plan plan = TinyPlan();
  plan.dp = plan.pp = 2;
  plan.clip_norm = 1;
  return plan;
}

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
