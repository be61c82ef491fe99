// SGD with momentum and Lion in a whole run: where their state lies, and equality between plans.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/data/token_data.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr OptimizerKind kOneMoment[] = {OptimizerKind::kMomentum, OptimizerKind::kLion};

// The gradients of both steps come from runs of one step each; the update of a single tensor is
// tested against its formula (MomentumTest).
TEST(OneMoment, KeepsItsMomentFromStepToStep) {
  const ModelSpec model = TinyGpt();
  for (const OptimizerKind optimizer : kOneMoment) {
    Plan plan = TinyPlan();
    plan.optimizer = optimizer;
    const auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    TrainingOptions options;
    options.steps = 1;
    TensorMap parameters;
    std::map<std::string, Moments> moments;
    auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
    for (int step = 0; step < 2; ++step) {
      const Trained now = OneStep(
          model, plan, step == 0 ? InitialWeights(model, options.seed) : SourceOf(parameters), step,
          **data);
      if (step == 0) parameters = now.parameters;
      for (const ParameterPlace& place : program->ranks[0].parameters) {
        UpdateByHand(optimizer, place, now.gradients.at(place.name), step + 1,
                     options.learning_rate, parameters.at(place.name), moments[place.name]);
      }
    }
    options.steps = 2;
    const Trained trained = TrainTiny(model, plan, options);
    for (const auto& [name, tensor] : trained.parameters) {
      EXPECT_EQ(tensor.values, parameters.at(name).values) << Describe(plan) << ' ' << name;
    }
  }
}

// Half of AdamW's state: 4 bytes of each parameter, 2 in bf16; and the same bits wherever the state
// lies, because each element is updated by itself. Without clipping: the norm is summed in the
// order of the buckets, which ZeRO-3 changes.
TEST(OneMoment, TrainsToTheBitWhereverItsStateLies) {
  const ModelSpec model = TinyGpt();
  constexpr auto kHost = OffloadTarget::kHost;
  void (*const changes[])(Plan&) = {
      [](Plan& p) { p.zero_stage = 1; },
      [](Plan& p) { p.zero_stage = 2; },
      [](Plan& p) { p.zero_stage = 3; },
      [](Plan& p) { p.offload_optimizer = kHost; },
      [](Plan& p) { p.zero_stage = 1, p.offload_optimizer = OffloadTarget::kNvme; },
      [](Plan& p) { p.offload_optimizer = kHost, p.stream_optimizer = true; },
      [](Plan& p) {
        p.offload_optimizer = OffloadTarget::kNvme, p.stream_optimizer = true;
        p.offload_parameters = OffloadTarget::kNvme, p.zero_stage = 3;
      }};
  for (const OptimizerKind optimizer : kOneMoment) {
    Plan plan = TinyPlan();
    plan.dp = 2;
    plan.global_batch = 2;
    plan.loss_scale = 1024;
    plan.optimizer = optimizer;
    const Trained whole = TrainTiny(model, plan);
    EXPECT_LT(whole.losses.back(), whole.losses.front());
    for (const auto change : changes) {
      Plan other = plan;
      change(other);
      const Trained trained = TrainTiny(model, other);
      EXPECT_EQ(trained.losses, whole.losses) << Describe(other);
      for (const auto& [name, tensor] : trained.parameters) {
        EXPECT_EQ(tensor.values, whole.parameters.at(name).values)
            << Describe(other) << ' ' << name;
      }
    }
  }
}

TEST(OneMoment, HasHalfOfAdamWsState) {
  const ModelSpec model = TinyGpt();
  for (const OptimizerKind optimizer : kOneMoment) {
    for (const MomentFormat format : {MomentFormat::kFp32, MomentFormat::kBf16}) {
      Plan plan = TinyPlan();
      plan.moments = format;
      const auto adam = Compile(model, plan);
      plan.optimizer = optimizer;
      const auto program = Compile(model, plan);
      ASSERT_TRUE(adam.has_value() && program.has_value());
      const auto state = [](const Program& of) {
        std::int64_t bytes = 0;
        for (const Buffer& buffer : of.ranks[0].buffers) {
          if (buffer.category == Category::kOptimizerState) bytes += buffer.bytes;
        }
        return bytes;
      };
      EXPECT_GT(state(*program), 0);
      EXPECT_EQ(2 * state(*program), state(*adam));
    }
  }
}

// Sums in another order change a gradient by its rounding: losses of 4 steps by 1e-6. Lion moves
// each element by a whole step of lr, so an element whose gradient is only rounding, such as a
// key's bias, moves either way; losses then agree to lr times such gradients.
TEST(OneMoment, TrainsAlikeOnOneRankAndOnMany) {
  const ModelSpec model = TinyGpt();
  void (*const changes[])(Plan&) = {
      [](Plan& p) { p.dp = 2, p.zero_stage = 3; },
      [](Plan& p) { p.tp = 2, p.sequence_parallel = true; }, [](Plan& p) { p.pp = 2; },
      [](Plan& p) { p.cp = 2; },
      [](Plan& p) { p.dp = p.tp = p.pp = 2, p.zero_stage = 1, p.moments = MomentFormat::kBf16; }};
  for (const OptimizerKind optimizer : kOneMoment) {
    for (const auto change : changes) {
      Plan plan = TinyPlan();
      plan.optimizer = optimizer;
      plan.clip_norm = 1.0;
      Plan many = plan;
      change(many);
      plan.moments = many.moments;
      TrainingOptions options;
      options.learning_rate = optimizer == OptimizerKind::kLion ? 1e-4F : 1e-2F;
      const Trained one = TrainTiny(model, plan, options);
      const Trained trained = TrainTiny(model, many, options);
      ASSERT_EQ(trained.losses.size(), one.losses.size());
      for (std::size_t step = 0; step < one.losses.size(); ++step) {
        EXPECT_NEAR(trained.losses[step], one.losses[step], 5e-6) << Describe(many) << step;
      }
      EXPECT_LT(trained.losses.back(), trained.losses.front()) << Describe(many);
    }
  }
}

}  // namespace
}  // namespace foretrain
