// Updates with post-validation train as plain ones do, and overlap with the reduction over the
// pipeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr double kLossTolerance = 1e-5;

Plan ZeroBubble(ScheduleKind schedule, int pp) {
  Plan plan = TinyPlan();
  plan.pp = pp;
  plan.schedule = schedule;
  return plan;
}

TrainingOptions Steps(int steps) {
  TrainingOptions options;
  options.steps = steps;
  options.learning_rate = 1e-3F;
  return options;
}

void ExpectAlike(const Trained& plain, const Trained& later) {
  ASSERT_EQ(plain.losses.size(), later.losses.size());
  for (std::size_t i = 0; i < plain.losses.size(); ++i) {
    EXPECT_NEAR(later.losses[i], plain.losses[i], kLossTolerance * plain.losses[i]) << "step " << i;
  }
  for (std::size_t i = 0; i < plain.squared_norms.size(); ++i) {
    EXPECT_NEAR(later.squared_norms[i], plain.squared_norms[i], 1e-4 * plain.squared_norms[i]);
  }
}

// Clipped at the median of the norms: some steps are clipped, some not. Of the clipped ones some
// stages know it from the values passed down, the others only afterwards.
void ExpectSame(const ModelSpec& model, Plan plan) {
  SCOPED_TRACE(Describe(plan));
  plan.clip_norm = 1e6;
  std::vector<float> norms = TrainTiny(model, plan, Steps(20)).squared_norms;
  std::sort(norms.begin(), norms.end());
  plan.clip_norm = std::sqrt(norms[10]);
  const Trained plain = TrainTiny(model, plan, Steps(20));
  const auto limit = static_cast<float>(plan.clip_norm * plan.clip_norm);
  const auto clipped = std::count_if(plain.squared_norms.begin(), plain.squared_norms.end(),
                                     [limit](float squared_norm) { return squared_norm > limit; });
  EXPECT_GE(clipped, 3);
  EXPECT_LE(clipped, 17);
  plan.post_validation = true;
  ExpectAlike(plain, TrainTiny(model, plan, Steps(20)));
}

TEST(PostValidation, TrainsAsPlainUpdatesDo) {
  ExpectSame(TinyGpt(), ZeroBubble(ScheduleKind::kZbH1, 4));
  ExpectSame(TinyLlama(), ZeroBubble(ScheduleKind::kZbH2, 2));
  ExpectSame(TinyGpt(false), ZeroBubble(ScheduleKind::kZbV, 2));
}

TEST(PostValidation, GoesWithOtherStrategies) {
  for (const int zero : {0, 1, 3}) {
    Plan plan = ZeroBubble(ScheduleKind::kZbH1, 2);
    plan.dp = 2;
    plan.zero_stage = zero;
    ExpectSame(TinyGpt(false), plan);
  }
  Plan plan = ZeroBubble(ScheduleKind::kZbV, 2);
  plan.tp = 2;
  plan.sequence_parallel = plan.vocab_parallel = true;
  ExpectSame(TinyLlama(), plan);
  plan = ZeroBubble(ScheduleKind::kZbH1, 3);
  plan.optimizer = OptimizerKind::kSgd;
  ExpectSame(TinyGpt(false), plan);
}

// Puts an infinity into the last rank's gradients before they are counted, in some steps.
class Overflows final : public FaultInjector {
 public:
  explicit Overflows(const Program& program) : rank_(program.ranks.back()) {
    for (const Instruction& instruction : rank_.step) {
      const bool counts = instruction.key.kind == InstructionKind::kNorm &&
                          instruction.key.part == 1;  // after the norm's
      if (counts) count_op_ = instruction.first_op;
    }
  }
  void BindTo(RankArena& arena) {
    const Binding first{rank_.buckets[0].gradients, 0, sizeof(float)};
    gradient_ = static_cast<float*>(static_cast<void*>(arena.At(first)));
  }
  Fault At(int rank, std::int64_t step, std::int32_t op) override {
    if (rank == rank_.rank && op == count_op_ && step % 3 == 0) {
      *gradient_ = std::numeric_limits<float>::infinity();
    }
    return {};
  }

 private:
  const RankProgram& rank_;
  std::int32_t count_op_ = -1;
  float* gradient_ = nullptr;
};

Trained TrainWithOverflows(const ModelSpec& model, const Plan& plan, const TrainingOptions& given) {
  auto compiled = Compile(model, plan);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto program = std::make_shared<const Program>(*std::move(compiled));
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  Overflows overflows(*program);
  RealClock clock;
  ExecutorOptions options;
  options.timeout_ns = 60'000'000'000;
  options.faults = &overflows;
  options.learning_rate = [&](std::int64_t) { return given.learning_rate; };
  auto executor = Executor::Make(program, CpuDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  overflows.BindTo((*executor)->Arena((*executor)->ranks() - 1));
  EXPECT_TRUE(FillParameters(**executor, InitialWeights(model, given.seed)).has_value());
  RecordingSink sink;
  EXPECT_TRUE((*executor)->Run(given.steps, **data, sink).has_value());
  Trained trained;
  trained.losses.resize(static_cast<std::size_t>(given.steps));
  for (const StepScalars& scalars : sink.scalars) {
    trained.losses[static_cast<std::size_t>(scalars.step)] = *scalars.loss;
  }
  trained.parameters = GatherTensors(**executor, GatheredState::kParameters);
  return trained;
}

// Steps 0, 3, 6, ... are skipped because of the last stage's gradients; earlier stages have already
// updated when they learn of it.
TEST(PostValidation, TakesBackTheUpdateOfAStepThatAnotherStageSkips) {
  for (const OptimizerKind optimizer : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    const ModelSpec model = TinyGpt(false);
    Plan plan = ZeroBubble(ScheduleKind::kZbH1, 3);
    plan.optimizer = optimizer;
    plan.loss_scale = 1024;
    SCOPED_TRACE(Describe(plan));
    TrainingOptions still = Steps(1);
    still.learning_rate = 0;
    const TensorMap start = TrainTiny(model, plan, still).parameters;
    EXPECT_EQ(LargestDifference(TrainWithOverflows(model, plan, Steps(1)).parameters, start), 0);
    const Trained plain = TrainWithOverflows(model, plan, Steps(20));
    EXPECT_GT(LargestDifference(plain.parameters, start), 1e-3) << "some steps are not skipped";
    plan.post_validation = true;
    // Two roundings forward and two back, relative to the largest number of a tensor.
    EXPECT_LT(LargestDifference(TrainWithOverflows(model, plan, Steps(1)).parameters, start), 1e-6);
    ExpectAlike(plain, TrainWithOverflows(model, plan, Steps(20)));
    plan.clip_norm = 0.5;
    const Trained later = TrainWithOverflows(model, plan, Steps(20));
    plan.post_validation = false;
    ExpectAlike(TrainWithOverflows(model, plan, Steps(20)), later);
  }
}

constexpr std::int64_t kMs = 1'000'000;

// 30 ms for the last rank's norm, 10 ms for each update.
struct Durations final : FaultInjector {
  explicit Durations(const Program& made) : program(made) {}
  Fault At(int rank, std::int64_t /*step*/, std::int32_t op) override {
    const RankProgram& of = program.ranks[static_cast<std::size_t>(rank)];
    const auto after = std::upper_bound(
        of.step.begin(), of.step.end(), op,
        [](std::int32_t n, const Instruction& instruction) { return n < instruction.first_op; });
    const InstructionKey& key = std::prev(after)->key;
    Fault fault{Fault::Kind::kDelay};
    if (key.kind == InstructionKind::kOptimizerStep) fault.delay_ns = 10 * kMs;
    const bool norm =
        key.kind == InstructionKind::kNorm && key.part == 0 && op == std::prev(after)->first_op;
    if (norm && rank + 1 == program.plan.pp) fault.delay_ns = 30 * kMs;
    if (fault.delay_ns == 0) fault.kind = Fault::Kind::kNone;
    return fault;
  }
  const Program& program;
};

struct Forced {
  std::int64_t end_ns = 0;
  std::int64_t updates[2] = {0, 0};  // by rank
};
Forced RunForced(const Plan& plan) {
  Forced forced;
  auto compiled = Compile(TinyGpt(false), plan);
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  const auto program = std::make_shared<const Program>(*std::move(compiled));
  for (const RankProgram& rank : program->ranks) {
    forced.updates[rank.pp] = std::count_if(
        rank.step.begin(), rank.step.end(),
        [](const Instruction& i) { return i.key.kind == InstructionKind::kOptimizerStep; });
  }
  auto data = TokenData::FromText(TrainingText(), "text", 256, plan);
  Durations durations(*program);
  VirtualClock clock;
  ExecutorOptions options;
  options.timeout_ns = 3600 * std::int64_t{1'000'000'000};
  options.faults = &durations;
  auto executor = Executor::Make(program, CpuDeviceApi(), clock, options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  RecordingSink sink;
  EXPECT_TRUE((*executor)->Run(1, **data, sink).has_value());
  for (const Span& span : sink.timeline.spans) {
    forced.end_ns = std::max(forced.end_ns, span.end_ns);
  }
  return forced;
}

// Nothing else takes time. Plain updates of both ranks start when the norm is known, at 30 ms: the
// first rank, which has more of them, ends at 30 + 10 n0. With post-validation the first rank's
// start at once and end at 10 n0, overlapped with the second rank's norm; the second rank's n1 end
// at 30 + 10 n1. The global result reaches the first rank at 30 ms and amends nothing.
TEST(PostValidation, HidesUpdatesBehindTheSumOverThePipeline) {
  Plan plan = ZeroBubble(ScheduleKind::kZbH1, 2);
  plan.stage_layers = {3, 1};
  plan.bucket_bytes = 1;
  plan.clip_norm = 1e6;
  const Forced plain = RunForced(plan);
  const auto [n0, n1] = plain.updates;
  ASSERT_GE(n0, n1 + 2);
  EXPECT_EQ(plain.end_ns, (30 + 10 * n0) * kMs);
  plan.post_validation = true;
  EXPECT_EQ(RunForced(plan).end_ns, std::max(30 + 10 * n1, 10 * n0) * kMs);
}

}  // namespace
}  // namespace foretrain
