// Training in 8 bits: plans change nothing if no scaled tensor is split, and little if one is.
// Losses compared with 16 bits: fp8_training_slow_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "sim/memory/peak_memory.h"
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

// Two layers whose rows are multiples of 128, also on two tensor-parallel ranks.
ModelSpec Wide(ModelSpec model) {
  model.layers = 2;
  model.hidden = 256;
  model.head_dim = 64;
  model.ffn_hidden = 256;
  return model;
}

TrainingOptions First() {
  TrainingOptions first;
  first.steps = 1;
  return first;
}

// A micro-batch is cast as on one rank, with the same scales. Only the order of fp32 sums over
// micro-batches and ranks differs.
void ExpectSameFirstStep(const ModelSpec& model, const Plan& single, const Plan& plan,
                         double tolerance = kGradientTolerance) {
  SCOPED_TRACE(model.name + " " + Describe(plan));
  const Trained expected = TrainTiny(model, single, First());
  const Trained actual = TrainTiny(model, plan, First());
  ASSERT_EQ(actual.losses.size(), 1U);
  EXPECT_NEAR(actual.losses[0], expected.losses[0], kLossTolerance * expected.losses[0]);
  EXPECT_LT(LargestDifference(expected.gradients, actual.gradients), tolerance);
}

std::vector<Plan> PlansThatCutNoTensor() {
  return {With([](Plan& p) { p.dp = 2; }),
          With([](Plan& p) { p.dp = 2, p.zero_stage = 1; }),
          With([](Plan& p) { p.dp = 2, p.zero_stage = 3; }),
          With([](Plan& p) { p.pp = 2; }),
          With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1; }),
          With([](Plan& p) { p.recompute = RecomputeKind::kFull; }),
          With([](Plan& p) { p.recompute = RecomputeKind::kSelective; }),
          With([](Plan& p) { p.fuse = FusionKind::kAll; }),
          With([](Plan& p) { p.offload_activations = OffloadTarget::kHost; }),
          With([](Plan& p) {
            p.dp = p.pp = 2, p.zero_stage = 2, p.offload_optimizer = OffloadTarget::kHost;
          })};
}

TEST(Fp8, GradientsAreThoseOfOneRankWhereNoTensorIsCut) {
  for (const ModelSpec& model : {TinyGpt(true), TinyLlama()}) {
    for (const Plan& plan : PlansThatCutNoTensor()) {
      ExpectSameFirstStep(model, In(Precision::kFp8), In(Precision::kFp8, plan));
    }
  }
}

TEST(Fp8, OfBlocksGradientsAreThoseOfOneRankWhereNoTensorIsCut) {
  Plan single = In(Precision::kFp8Block);
  single.global_batch = 4;
  for (Plan plan : PlansThatCutNoTensor()) {
    plan = In(Precision::kFp8Block, plan);
    plan.global_batch = 4;
    ExpectSameFirstStep(Wide(TinyGpt(true)), single, plan);
  }
}

TEST(Fp8, RecomputingChangesNoBit) {
  for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
    Plan plan = In(precision);
    plan.global_batch = 2;
    const Trained kept = TrainTiny(Wide(TinyLlama()), plan);
    plan.recompute = RecomputeKind::kFull;
    EXPECT_TRUE(SameBits(kept, TrainTiny(Wide(TinyLlama()), plan))) << Name(precision);
  }
}

// B is 0 at first, so adapters in 8 bits change nothing. Then they learn as those in 16 bits do,
// whose products differ by a few percent.
TEST(Fp8, AdaptersComputeAsTheLinearsBesideThem) {
  for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
    Plan whole = In(precision);
    whole.global_batch = 4;
    Plan plan = whole;
    plan.method = TrainingMethod::kLora;
    plan.lora_rank = 4;
    Plan bf16 = plan;
    bf16.precision = Precision::kBf16;
    const ModelSpec model = Wide(TinyLlama());
    TrainingOptions options;
    options.learning_rate = 1e-3F;
    const Trained expected = TrainTiny(model, bf16, options);
    const Trained actual = TrainTiny(model, plan, options);
    EXPECT_EQ(actual.losses[0], TrainTiny(model, whole, First()).losses[0]);
    for (std::size_t step = 0; step < actual.losses.size(); ++step) {
      EXPECT_NEAR(actual.losses[step], expected.losses[step], 2e-2 * expected.losses[step]) << step;
    }
    EXPECT_LT(actual.losses.back(), actual.losses.front());
    Plan two = plan;
    two.dp = 2, two.zero_stage = 2;
    ExpectSameFirstStep(model, plan, two);
  }
}

constexpr double kCodeTolerance = 1.0 / 8 / 256;

// Rows that ranks gather as codes share one scale, so products read the same codes as with all rows
// on each rank; outputs are sums of the same parts.
// Products of fewer rows may add in another order, which depends on the processor. A number
// half-way between two codes may then take the other one: an eighth of one of 256 terms, of either
// sign.
TEST(Fp8, GatheredRowsHaveOneScale) {
  for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
    Plan whole = In(precision);
    whole.tp = 2;
    whole.global_batch = 2;
    Plan split = whole;
    split.sequence_parallel = true;
    ExpectSameFirstStep(Wide(TinyGpt(false)), whole, split, kCodeTolerance);
    ExpectSameFirstStep(Wide(TinyLlama()), whole, split, kCodeTolerance);
  }
}

// If tensor-parallel ranks, tiles or context-parallel ranks split a tensor, each part has its own
// scale and rounds differently: as far from 16 bits as one rank is (fp8_training_slow_test.cc).
TEST(Fp8, LossesAreNearThoseOfOneRankWhereTensorsAreCut) {
  for (const Plan& plan :
       {With([](Plan& p) { p.tp = 2; }), With([](Plan& p) { p.mlp_tiles = 3, p.loss_chunks = 2; }),
        With([](Plan& p) {
          p.tp = 2, p.sequence_parallel = p.vocab_parallel = true, p.tp_tiles = 2;
        }),
        With([](Plan& p) { p.cp = 2; }),
        With([](Plan& p) { p.tp = p.pp = p.dp = 2, p.zero_stage = 1; })}) {
    SCOPED_TRACE(Describe(plan));
    const Trained expected = TrainTiny(TinyGpt(), In(Precision::kFp8));
    const Trained actual = TrainTiny(TinyGpt(), In(Precision::kFp8, plan));
    ASSERT_EQ(actual.losses.size(), expected.losses.size());
    for (std::size_t step = 0; step < expected.losses.size(); ++step) {
      EXPECT_NEAR(actual.losses[step], expected.losses[step], 2e-2 * expected.losses[step]) << step;
    }
  }
}

// Experts with rows by counts, in pieces, or up to a capacity: rows that nothing fills do not
// affect a scale.
TEST(Fp8, ExpertsTrainWhoeverHasThem) {
  for (const double capacity : {0.0, 1.25}) {
    for (const int pieces : {1, 2}) {
      Plan plan = In(Precision::kFp8);
      plan.dp = 2, plan.ep = 2, plan.moe_pieces = pieces, plan.capacity_factor = capacity;
      SCOPED_TRACE(Describe(plan));
      Plan wide = plan;
      wide.precision = Precision::kBf16;
      const Trained expected = TrainTiny(TinyExperts(), wide);
      const Trained actual = TrainTiny(TinyExperts(), plan);
      ASSERT_EQ(actual.losses.size(), expected.losses.size());
      for (std::size_t step = 0; step < expected.losses.size(); ++step) {
        EXPECT_NEAR(actual.losses[step], expected.losses[step], 3e-2 * expected.losses[step])
            << step;
      }
    }
  }
}

std::vector<Plan> PlansOfEachKind(Precision precision) {
  std::vector<Plan> plans;
  for (const Plan& plan : {TinyPlan(), With([](Plan& p) { p.dp = 2, p.zero_stage = 3; }),
                           With([](Plan& p) { p.tp = 2, p.sequence_parallel = true; }),
                           With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; }),
                           With([](Plan& p) { p.mlp_tiles = 2; }),
                           With([](Plan& p) { p.offload_activations = OffloadTarget::kHost; })}) {
    plans.push_back(In(precision, plan));
    plans.back().global_batch = 4;
  }
  return plans;
}

TEST(Fp8, MovesTheBytesAndHoldsTheMemoryOfTheForecast) {
  for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
    for (const Plan& plan : PlansOfEachKind(precision)) {
      SCOPED_TRACE(Describe(plan));
      const ModelSpec model = Wide(TinyGpt());
      const auto program = Compile(model, plan);
      ASSERT_TRUE(program.has_value()) << program.error().message;
      const Trained trained = TrainTiny(model, plan, First());
      EXPECT_EQ(PredictedBytes(*program), BytesOf(trained.timeline));
      for (const RankProgram& rank : program->ranks) {
        const auto measured = trained.summary.peak_bytes[static_cast<std::size_t>(rank.rank)];
        EXPECT_EQ(PlannedPeak(model, plan, rank.Coordinates()).total, LinkedPeak(rank).total);
        EXPECT_LE(measured, rank.arena_bytes[0]);
        EXPECT_GT(measured, rank.arena_bytes[0] / 2);
      }
    }
  }
}

TEST(Fp8, FourBitsAreForecastAlone) {
  auto program = Compile(Wide(TinyGpt()), In(Precision::kFp4));
  ASSERT_TRUE(program.has_value()) << program.error().message;
  RealClock clock;
  const auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                       CpuDeviceApi(), clock, ExecutorOptions{});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(executor.error().message,
              testing::HasSubstr("cpu has no kernel quantize for fp4, which is forecast alone (use "
                                 "precision fp8-block or bf16), which op"));
}

}  // namespace
}  // namespace foretrain
