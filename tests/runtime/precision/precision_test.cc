// Training in 16 bits: effects of plans, and what stays the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/executor/step_bytes.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

Plan In(Precision precision, const Plan& plan = TinyPlan()) {
  Plan in = plan;
  in.precision = precision;
  return in;
}

class Alike : public testing::TestWithParam<Case> {};

// Micro-batches see the same 16-bit tensors on any rank, and gradients are fp32: only the order of
// fp32 sums differs. The first step's gradients are therefore as close as in fp32. An update may
// then round a weight to a neighbour, 2^-8 of its size apart.
TEST_P(Alike, GradientsAreAsCloseAsInFp32WhereNoTensorIsCut) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    const Plan single = In(precision), plan = In(precision, GetParam().plan);
    Plan same_weights = single;
    same_weights.weights = plan.weights;
    for (const ModelSpec& model : {TinyGpt(true), TinyLlama()}) {
      SCOPED_TRACE(model.name + " " + Describe(plan));
      TrainingOptions first;
      first.steps = 1;
      const Trained expected = TrainTiny(model, same_weights, first);
      const Trained actual = TrainTiny(model, plan, first);
      ASSERT_EQ(actual.losses.size(), 1U);
      EXPECT_NEAR(actual.losses[0], expected.losses[0], kLossTolerance * expected.losses[0]);
      EXPECT_LT(LargestDifference(expected.gradients, actual.gradients), kGradientTolerance);
      const Trained longer = TrainTiny(model, same_weights), other = TrainTiny(model, plan);
      for (std::size_t step = 0; step < longer.losses.size(); ++step) {
        EXPECT_NEAR(other.losses[step], longer.losses[step], 2e-3 * longer.losses[step]) << step;
      }
      EXPECT_LT(other.losses.back(), other.losses.front() - 0.3) << "it does not learn";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Alike,
    testing::Values(
        Case{"Dp2", With([](Plan& p) { p.dp = 2; })},
        Case{"Dp2Zero1", With([](Plan& p) { p.dp = 2, p.zero_stage = 1; })},
        Case{"Dp2Zero3", With([](Plan& p) { p.dp = 2, p.zero_stage = 3; })},
        Case{"Fp32Weights", With([](Plan& p) { p.weights = WeightStorage::kFp32; })},
        Case{"Pp2", With([](Plan& p) { p.pp = 2; })},
        Case{"Pp2ZbH1", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1; })},
        Case{"Recompute", With([](Plan& p) { p.recompute = RecomputeKind::kFull; })},
        Case{"Selective", With([](Plan& p) { p.recompute = RecomputeKind::kSelective; })},
        Case{"Fused", With([](Plan& p) { p.fuse = FusionKind::kNorms; })},
        Case{"Dp2Zero2OffloadHost", With([](Plan& p) {
               p.dp = 2, p.zero_stage = 2, p.offload_optimizer = OffloadTarget::kHost;
             })},
        Case{"OffloadNvmeActivations", With([](Plan& p) {
               p.offload_optimizer = OffloadTarget::kNvme;
               p.offload_activations = OffloadTarget::kHost;
             })},
        Case{"OffloadGradients", With([](Plan& p) {
               p.offload_optimizer = p.offload_gradients = OffloadTarget::kHost;
             })},
        Case{"Streamed", With([](Plan& p) {
               p.offload_optimizer = OffloadTarget::kHost, p.stream_optimizer = true;
             })}),
    [](const auto& test) { return std::string(test.param.name); });

class Cut : public testing::TestWithParam<Case> {};

// If ranks round partial sums before adding them, each rounding is an error of 2^-9 (bf16) of a
// part. About 4 of them a layer and direction affect a gradient through 4 layers, forward and back.
// If they are independent, the error is 2^-9 * sqrt(32) = 0.011; 4 deviations are allowed. A
// product fused with its activation skips one rounding a layer and direction: that of the
// activation's input or its slope.
TEST_P(Cut, GradientsDifferByRoundingsOfPartialSums) {
  const double tolerance = 4 * std::ldexp(1.0, -9) * std::sqrt(32.0);
  for (const ModelSpec& model : {TinyGpt(false), TinyLlama()}) {
    TrainingOptions first;
    first.steps = 1;
    const Trained expected = TrainTiny(model, In(Precision::kBf16), first);
    const Trained actual = TrainTiny(model, In(Precision::kBf16, GetParam().plan), first);
    ASSERT_EQ(actual.losses.size(), 1U);
    EXPECT_NEAR(actual.losses[0], expected.losses[0], 1e-3 * expected.losses[0]) << model.name;
    EXPECT_LT(LargestDifference(expected.gradients, actual.gradients), tolerance) << model.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, Cut,
    testing::Values(Case{"Tp2", With([](Plan& p) { p.tp = 2; })},
                    Case{"Dp2Zero3Fp32Weights", With([](Plan& p) {
                           p.dp = 2, p.zero_stage = 3, p.weights = WeightStorage::kFp32;
                           p.precision = Precision::kBf16;
                         })},
                    Case{"Tiles", With([](Plan& p) { p.mlp_tiles = 3, p.loss_chunks = 2; })},
                    Case{"Tp2Rows", With([](Plan& p) {
                           p.tp = 2, p.sequence_parallel = p.vocab_parallel = true, p.tp_tiles = 2;
                         })},
                    Case{"Epilogues", With([](Plan& p) { p.fuse = FusionKind::kAll; })},
                    Case{"ShortLogits", With([](Plan& p) {
                           p.logits = GradientFormat::kCompute, p.vocab_multiple = 24;
                         })},
                    Case{"ShortLogitsTp2VocabChunks", With([](Plan& p) {
                           p.tp = 2, p.vocab_parallel = true, p.loss_chunks = 2;
                           p.logits = GradientFormat::kCompute;
                         })},
                    Case{"Cp2Ring", With([](Plan& p) { p.cp = 2; })},
                    Case{"Cp2AllToAll", With([](Plan& p) { p.cp = 2, p.cp_kind = kCpAllToAll; })},
                    Case{"Cp2AllGather", With([](Plan& p) { p.cp = 2, p.cp_kind = kCpAllGather; })},
                    Case{"Tp2Pp2Dp2",
                         With([](Plan& p) { p.tp = p.pp = p.dp = 2, p.zero_stage = 1; })}),
    [](const auto& test) { return std::string(test.param.name); });

// The loss of the same weights, rounded, differs from fp32 only by roundings of 2^-9 on the way to
// logits near 0. Training then takes the same course.
TEST(Precision, TrainsAsFp32Does) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    for (const ModelSpec& model : {TinyGpt(true), TinyLlama(), TinyExperts()}) {
      const Trained fp32 = TrainTiny(model, TinyPlan()), in = TrainTiny(model, In(precision));
      ASSERT_EQ(in.losses.size(), fp32.losses.size());
      EXPECT_NEAR(in.losses[0], fp32.losses[0], 2e-3 * fp32.losses[0]) << model.name;
      for (std::size_t step = 0; step < in.losses.size(); ++step) {
        EXPECT_NEAR(in.losses[step], fp32.losses[step], 2e-2 * fp32.losses[step]) << model.name;
      }
    }
  }
}

// TF32 keeps 10 bits of the products' inputs, three more than bf16: tolerances are an eighth of
// those above. The bits of the gradients show that it is not fp32.
TEST(Precision, TrainsInTf32AsFp32Does) {
  for (const ModelSpec& model : {TinyGpt(true), TinyLlama(), TinyExperts()}) {
    const Trained fp32 = TrainTiny(model, TinyPlan()), in = TrainTiny(model, In(Precision::kTf32));
    ASSERT_EQ(in.losses.size(), fp32.losses.size());
    EXPECT_NEAR(in.losses[0], fp32.losses[0], 2e-3 / 8 * fp32.losses[0]) << model.name;
    for (std::size_t step = 0; step < in.losses.size(); ++step) {
      EXPECT_NEAR(in.losses[step], fp32.losses[step], 2e-2 / 8 * fp32.losses[step]) << model.name;
    }
    EXPECT_GT(LargestDifference(fp32.gradients, in.gradients), 0.0) << model.name;
  }
}

// Weights without a master copy still learn: steps of 1e-2 are large compared with their rounding.
TEST(Precision, TrainsWithoutAnythingInFp32) {
  Plan plan = In(Precision::kBf16);
  plan.weights = WeightStorage::kAlone;
  plan.gradients = GradientFormat::kCompute;
  const Trained trained = TrainTiny(TinyGpt(), plan);
  ASSERT_EQ(trained.losses.size(), 4U);
  EXPECT_LT(trained.losses.back(), trained.losses.front() - 0.3);
}

// Norm weights start at 1, where bf16 numbers are 2^-7 and 2^-8 apart: rounding to nearest loses
// each step of 1e-3. With stochastic rounding some of 16 move in 8 steps; that none does has a
// probability below (1 - 1e-3 * 2^7)^128 = 3e-8. Two runs give the same bits.
TEST(Precision, StepsBelowRoundingMoveWeightsWithoutAMaster) {
  Plan plan = In(Precision::kBf16);
  plan.weights = WeightStorage::kAlone;
  TrainingOptions options;
  options.steps = 8;
  options.learning_rate = 1e-3F;
  const auto moved = [&](const Plan& of) {
    const Trained trained = TrainTiny(TinyLlama(), of, options);
    std::vector<float> norms;
    for (const auto& [name, tensor] : trained.parameters) {
      if (name.find("norm") == std::string::npos) continue;
      norms.insert(norms.end(), tensor.values.begin(), tensor.values.end());
    }
    return norms;
  };
  const std::vector<float> alone = moved(plan);
  ASSERT_GE(alone.size(), 16U);
  EXPECT_GT(std::ranges::count_if(alone, [](float x) { return x != 1.0F; }), 0);
  EXPECT_EQ(moved(plan), alone);
}

// The first step's update has no gradient: the device then receives its old weights.
TEST(Precision, DelaysUpdatesOfMastersAsOfFp32) {
  Plan plan = TinyPlan();
  plan.offload_optimizer = OffloadTarget::kHost;
  plan.delayed_update = true;
  TrainingOptions options;
  options.steps = 6;
  const Trained fp32 = TrainTiny(TinyGpt(), plan, options);
  const Trained bf16 = TrainTiny(TinyGpt(), In(Precision::kBf16, plan), options);
  ASSERT_EQ(bf16.losses.size(), fp32.losses.size());
  for (std::size_t step = 0; step < bf16.losses.size(); ++step) {
    EXPECT_NEAR(bf16.losses[step], fp32.losses[step], 2e-2 * fp32.losses[step]) << step;
  }
}

TEST(Precision, MovesTheBytesOfTheForecast) {
  std::vector<Plan> plans;
  for (const WeightStorage weights :
       {WeightStorage::kMaster, WeightStorage::kFp32, WeightStorage::kAlone}) {
    for (int zero = 0; zero < 4; ++zero) {
      Plan plan = In(Precision::kBf16);
      plan.dp = plan.tp = plan.pp = 2;
      plan.zero_stage = zero;
      plan.weights = weights;
      plan.gradients = zero % 2 == 0 ? GradientFormat::kCompute : GradientFormat::kFp32;
      plan.sequence_parallel = zero > 1;
      plans.push_back(plan);
    }
  }
  for (const Plan& plan : plans) {
    SCOPED_TRACE(Describe(plan));
    const auto program = Compile(TinyGpt(), plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    TrainingOptions one;
    one.steps = 1;
    const Trained trained = TrainTiny(TinyGpt(), plan, one);
    EXPECT_EQ(PredictedBytes(*program), BytesOf(trained.timeline));
  }
}

// Experts' rows are sent in 16 bits, also by counts.
TEST(Precision, SendsRowsToExpertsIn16Bits) {
  for (const double capacity : {0.0, 1.25}) {
    Plan plan = In(Precision::kBf16);
    plan.dp = 4;
    plan.ep = 2;
    plan.capacity_factor = capacity;
    plan.zero_stage = 1;
    const auto program = Compile(TinyExperts(), plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    TrainingOptions one;
    one.steps = 1;
    const Trained trained = TrainTiny(TinyExperts(), plan, one);
    EXPECT_EQ(PredictedBytes(*program, trained.routing), BytesOf(trained.timeline));
  }
}

}  // namespace
}  // namespace foretrain
