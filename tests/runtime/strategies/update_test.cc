// Updates in a whole run: formats of moments and gathers, SGD, and skipped steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/parameters/tensors.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

bool SameValues(const TensorMap& a, const TensorMap& b) {
  bool same = a.size() == b.size() && !a.empty();
  for (const auto& [name, tensor] : a) same = same && tensor.values == b.at(name).values;
  return same;
}

TensorMap InitialTensors(const ModelSpec& model) {
  TrainingOptions still;
  still.steps = 1;
  still.learning_rate = 0;
  return TrainTiny(model, TinyPlan(), still).parameters;
}

// The first step's moments start at 0 and are used before they are stored.
TEST(Moments, InShorterFormatsLeaveTheFirstStepAsItIs) {
  TrainingOptions one;
  one.steps = 1;
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 2;
  const Trained fp32 = TrainTiny(TinyGpt(), plan, one);
  for (const MomentFormat format : {MomentFormat::kBf16, MomentFormat::kInt8}) {
    plan.moments = format;
    EXPECT_TRUE(SameValues(fp32.parameters, TrainTiny(TinyGpt(), plan, one).parameters));
  }
}

TEST(Moments, InShorterFormatsStillLearn) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  for (const MomentFormat format : {MomentFormat::kBf16, MomentFormat::kInt8}) {
    plan.moments = format;
    const Trained trained = TrainTiny(TinyGpt(), plan);
    EXPECT_LT(trained.losses.back(), trained.losses[0] - 0.3) << Describe(plan);
  }
}

// bf16 rounds each moment by itself, so shards change nothing.
TEST(Moments, InBf16AreTheSameInShards) {
  Plan plan = TinyPlan();
  plan.moments = MomentFormat::kBf16;
  plan.dp = 4;
  plan.reduction_time = ReductionTime::kMicroBatch;
  const Trained whole = TrainTiny(TinyGpt(), plan);
  plan.zero_stage = 3;
  EXPECT_TRUE(SameValues(whole.parameters, TrainTiny(TinyGpt(), plan).parameters));
}

// p - lr * 0.1 * p - lr * g by hand, from the gradients that the run returns. The decay of 0.1 is
// the executor's, for matrices only. 4 roundings of numbers up to 1.
TEST(Sgd, MovesAgainstTheGradient) {
  const ModelSpec model = TinyGpt(false);
  const TensorMap start = InitialTensors(model);
  TrainingOptions one;
  one.steps = 1;
  one.learning_rate = 0.5F;
  Plan plan = TinyPlan();
  plan.dp = plan.pp = 2;
  plan.zero_stage = 3;
  plan.optimizer = OptimizerKind::kSgd;
  const Trained trained = TrainTiny(model, plan, one);
  double moved = 0;
  for (const auto& [name, tensor] : trained.parameters) {
    const double decay = tensor.rows > 1 ? 0.5 * 0.1 : 0.0;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      const double before = start.at(name).values[i];
      const double expected =
          before - decay * before - 0.5 * double{trained.gradients.at(name).values[i]};
      ASSERT_NEAR(tensor.values[i], expected, 5e-7) << name << ' ' << i;
      moved = std::max(moved, std::fabs(expected - before));
    }
  }
  EXPECT_GT(moved, 0.01);
}

class Session {
 public:
  Session(const ModelSpec& model, const Plan& plan, std::int64_t first_step) {
    auto program = Compile(model, plan);
    EXPECT_TRUE(program.has_value()) << program.error().message;
    ExecutorOptions options;
    options.first_step = first_step;
    options.timeout_ns = 60'000'000'000;
    options.learning_rate = [](std::int64_t) { return 0.1F; };
    executor_ = *Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                CpuDeviceApi(), clock_, options);
    data_ = *TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  }
  void Fill(const TensorMap& tensors) {
    EXPECT_TRUE(FillParameters(*executor_, SourceOf(tensors)).has_value());
  }
  void Step() {
    RecordingSink sink;
    EXPECT_TRUE(executor_->Run(1, *data_, sink).has_value());
    scales_.clear();
    for (const StepScalars& scalars : sink.scalars) {
      if (scalars.loss_scale) scales_.push_back(*scalars.loss_scale);
    }
  }
  // Loss scales of the last step on all ranks.
  const std::vector<float>& LossScales() const { return scales_; }
  TensorMap State(GatheredState kind) { return GatherTensors(*executor_, kind); }
  TensorMap Parameters() { return State(GatheredState::kParameters); }

 private:
  RealClock clock_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<BatchSource> data_;
  std::vector<float> scales_;
};

// Step 1 meets an infinite parameter and is skipped by all ranks, including those with finite
// gradients.
void SkipSecondStep(Session& run, const TensorMap& start) {
  run.Fill(start);
  run.Step();
  const TensorMap after_first = run.Parameters();
  const TensorMap moments = run.State(GatheredState::kMoment2);
  TensorMap infinite = after_first;
  infinite.at("layers.3.mlp.up.weight").values[7] = std::numeric_limits<float>::infinity();
  run.Fill(infinite);
  run.Step();
  EXPECT_TRUE(SameValues(run.Parameters(), infinite));
  if (!moments.empty()) {
    EXPECT_TRUE(SameValues(run.State(GatheredState::kMoment2), moments));
  }
  run.Fill(after_first);
}

// Once the infinity is removed, step 2 continues as if step 1 had not happened.
TEST(LossScale, SkipsAStepWithAnInjectedInfinityAndGoesOn) {
  const ModelSpec model = TinyGpt();
  const TensorMap start = InitialTensors(model);
  for (const int zero : {0, 2, 3}) {
    Plan plan = TinyPlan();
    plan.dp = plan.pp = 2;
    plan.zero_stage = zero;
    plan.optimizer = OptimizerKind::kSgd;
    plan.loss_scale = 1024;
    SCOPED_TRACE(Describe(plan));
    Session run(model, plan, 0);
    SkipSecondStep(run, start);
    const TensorMap after_first = run.Parameters();
    run.Step();
    plan.loss_scale = 0;  // a power of two: omitting it changes no bit
    Session undisturbed(model, plan, 2);
    undisturbed.Fill(after_first);
    undisturbed.Step();
    EXPECT_TRUE(SameValues(run.Parameters(), undisturbed.Parameters()));
    EXPECT_FALSE(SameValues(run.Parameters(), after_first));
  }
}

TEST(LossScale, LeavesMomentsOfASkippedStepAsTheyAre) {
  const ModelSpec model = TinyGpt();
  const TensorMap start = InitialTensors(model);
  for (const MomentFormat format :
       {MomentFormat::kFp32, MomentFormat::kBf16, MomentFormat::kInt8}) {
    Plan plan = TinyPlan();
    plan.dp = 2;
    plan.tp = 2;
    plan.zero_stage = 1;
    plan.clip_norm = 0.5;
    plan.moments = format;
    plan.loss_scale = 3;
    SCOPED_TRACE(Describe(plan));
    Session run(model, plan, 0);
    SkipSecondStep(run, start);
    const TensorMap before = run.Parameters();
    run.Step();
    EXPECT_FALSE(SameValues(run.Parameters(), before));
  }
}

// A window of 2, by hand. The scale of each step relative to the first; in steps 1 and 2 parameters
// contain an infinity, and so do all gradients:
//   step   0   1     2     3     4     5   6
//   good   1   no    no    1     2     1   2
//   scale  1   1     1/2   1/4   1/4   1/2 1/2   and 1 after step 6
//
// A power-of-two scale changes no bit, so all other steps move the parameters as without a scale.
TEST(LossScale, DoublesAfterGoodStepsAndHalvesAfterBadOnes) {
  const ModelSpec model = TinyGpt();
  const TensorMap start = InitialTensors(model);
  constexpr auto kHostTarget = OffloadTarget::kHost;
  void (*const changes[])(Plan&) = {
      [](Plan&) {}, [](Plan& p) { p.dp = p.pp = 2, p.zero_stage = 2; },
      [](Plan& p) { p.tp = p.dp = 2, p.vocab_parallel = true, p.zero_stage = 3; },
      [](Plan& p) {
        p.dp = p.zero_stage = 2, p.offload_optimizer = p.offload_gradients = kHostTarget;
      },
      [](Plan& p) { p.loss_chunks = 3, p.optimizer = OptimizerKind::kAdamW; }};
  for (const auto change : changes) {
    Plan plan = TinyPlan();
    plan.optimizer = OptimizerKind::kSgd;
    plan.loss_scale = 1024;
    plan.loss_scale_window = 2;
    plan.clip_norm = 0.5;
    change(plan);
    if (plan.offload_optimizer != OffloadTarget::kNone) plan.optimizer = OptimizerKind::kAdamW;
    SCOPED_TRACE(Describe(plan));
    Session run(model, plan, 0);
    run.Fill(start);
    const auto scale_of_step = [&](double parts) {
      run.Step();
      const std::vector<float>& scales = run.LossScales();
      ASSERT_EQ(scales.size(), static_cast<std::size_t>(plan.World()));
      for (const float scale : scales) EXPECT_EQ(scale, 1024 * parts);
    };
    scale_of_step(1);
    const TensorMap after_first = run.Parameters();
    TensorMap infinite = after_first;
    infinite.at("layers.3.mlp.up.weight").values[7] = std::numeric_limits<float>::infinity();
    run.Fill(infinite);
    scale_of_step(1);
    scale_of_step(0.5);
    EXPECT_TRUE(SameValues(run.Parameters(), infinite));
    run.Fill(after_first);
    for (const double parts : {0.25, 0.25, 0.5, 0.5, 1.0}) scale_of_step(parts);
    EXPECT_FALSE(SameValues(run.Parameters(), after_first));
  }
}

// Wherever the state is stored and updated, a step is skipped as on the device, and the next step
// gives the same bits. One micro-batch a rank, because sums on the host add in another order.
TEST(LossScale, SkipsAStepOffTheDevice) {
  const ModelSpec model = TinyGpt();
  const TensorMap start = InitialTensors(model);
  Plan here = TinyPlan();
  here.dp = 2;
  here.global_batch = 2;
  here.zero_stage = 3;
  here.clip_norm = 0.5;
  here.loss_scale = 1024;
  Session reference(model, here, 0);
  SkipSecondStep(reference, start);
  reference.Step();
  const TensorMap parameters = reference.Parameters();
  const TensorMap moments = reference.State(GatheredState::kMoment1);
  constexpr auto kHostTarget = OffloadTarget::kHost;
  void (*const changes[])(Plan&) = {
      [](Plan& p) { p.offload_optimizer = kHostTarget; },
      [](Plan& p) { p.offload_optimizer = OffloadTarget::kNvme, p.offload_fraction = 0.5; },
      [](Plan& p) { p.offload_optimizer = kHostTarget, p.stream_optimizer = true; },
      [](Plan& p) { p.offload_optimizer = p.offload_gradients = kHostTarget; },
      [](Plan& p) {
        p.offload_optimizer = p.offload_parameters = p.offload_gradients = kHostTarget;
      },
      [](Plan& p) {
        p.offload_optimizer = p.offload_parameters = OffloadTarget::kNvme;
        p.offload_gradients = p.offload_activations = kHostTarget, p.stream_optimizer = true;
      }};
  for (const auto change : changes) {
    Plan plan = here;
    change(plan);
    SCOPED_TRACE(Describe(plan));
    Session run(model, plan, 0);
    SkipSecondStep(run, start);
    run.Step();
    EXPECT_TRUE(SameValues(run.Parameters(), parameters));
    EXPECT_TRUE(SameValues(run.State(GatheredState::kMoment1), moments));
  }
}

// To first order, the loss changes by the sum of gradient times change over the parameters. A
// parameter changes by at most half a step of the format: bf16 2^-8 of it; e4m3 2^-4 of it or 2^-10
// / 448 of its block's maximum; int8 1 / 254 of that maximum. Twice that covers the curvature.
TEST(GatherFormats, ChangeTheLossNoMoreThanTheirRoundingCan) {
  const ModelSpec model = TinyGpt();
  TrainingOptions one;
  one.steps = 1;
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 3;
  const TensorMap start = InitialTensors(model);
  double largest = 0;
  for (const auto& [name, tensor] : start) {
    for (const float p : tensor.values) largest = std::max(largest, std::fabs(double{p}));
  }
  const Trained exact = TrainTiny(model, plan, one);
  for (const GatherFormat format : {GatherFormat::kBf16, GatherFormat::kFp8, GatherFormat::kInt8}) {
    plan.gather_format = format;
    SCOPED_TRACE(Describe(plan));
    double bound = 0;
    for (const auto& [name, tensor] : start) {
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        const double p = std::fabs(double{tensor.values[i]});
        const double step = format == GatherFormat::kBf16  ? p / 256
                            : format == GatherFormat::kFp8 ? std::max(p / 16, largest / 448 / 1024)
                                                           : largest / 254;
        bound += std::fabs(double{exact.gradients.at(name).values[i]}) * step;
      }
    }
    const Trained trained = TrainTiny(model, plan, one);
    const double change = std::fabs(trained.losses[0] - exact.losses[0]);
    EXPECT_LE(change, 2 * bound);
    EXPECT_GT(change, 0.0) << "nothing was rounded";
    const Trained longer = TrainTiny(model, plan);
    EXPECT_LT(longer.losses.back(), longer.losses[0] - 0.3);
  }
}

// All ranks compute with the same rounded parameters, whatever pieces were sent. bf16 rounds each
// by itself, so ZeRO over 2 and 4 ranks differs only in the order of sums.
TEST(GatherFormats, RoundAlikeOnAllRanks) {
  TrainingOptions one;
  one.steps = 1;
  Plan plan = TinyPlan();
  plan.zero_stage = 3;
  plan.gather_format = GatherFormat::kBf16;
  plan.dp = 2;
  const Trained two = TrainTiny(TinyLlama(), plan, one);
  plan.dp = 4;
  EXPECT_LT(LargestDifference(two.gradients, TrainTiny(TinyLlama(), plan, one).gradients), 5e-5);
}

}  // namespace
}  // namespace foretrain
