// Training with dropout, and with attention that stores its scores: masks equal those of one rank
// on any rank, and are equal when drawn again.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr auto kStandard = AttentionAlgorithm::kStandard;

Plan Dropped(Plan plan, double probability = 0.2) {
  plan.dropout = plan.attention_dropout = probability;
  plan.clip_norm = 0.5;
  return plan;
}

class DropoutEquality : public testing::TestWithParam<Case> {};

// Dropout slows learning: the loss falls by 0.1 in 4 steps.
TEST_P(DropoutEquality, LossesAndGradientsAreThoseOfOneRank) {
  for (const ModelSpec& model : {TinyGpt(true), TinyLlama()}) {
    ExpectTrainsAlike(model, Dropped(TinyPlan()), Dropped(GetParam().plan), 0.1);
  }
}

std::string NameOfTest(const testing::TestParamInfo<Case>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(ContextPlans, DropoutEquality, testing::ValuesIn(ContextCases()),
                         NameOfTest);
INSTANTIATE_TEST_SUITE_P(
    Plans, DropoutEquality,
    testing::Values(
        Case{"MicroBatch2", With([](Plan& p) { p.micro_batch = 2; })},
        Case{"Recompute", With([](Plan& p) { p.recompute = RecomputeKind::kFull; })},
        Case{"Selective", With([](Plan& p) { p.recompute = RecomputeKind::kSelective; })},
        Case{"Standard", With([](Plan& p) { p.attention = kStandard; })},
        Case{"StandardSelective", With([](Plan& p) {
               p.attention = kStandard, p.recompute = RecomputeKind::kSelective;
             })},
        Case{"StandardTp2Recompute", With([](Plan& p) {
               p.attention = kStandard, p.tp = 2, p.recompute = RecomputeKind::kFull;
             })},
        Case{"StandardDp2Tp2Rows", With([](Plan& p) {
               p.attention = kStandard, p.dp = p.tp = 2, p.sequence_parallel = true;
               p.vocab_parallel = true, p.micro_batch = 2, p.zero_stage = 3;
             })},
        Case{"StandardTp2Pp2ZbH1SelectiveRows", With([](Plan& p) {
               p.attention = kStandard, p.tp = p.pp = 2, p.schedule = ScheduleKind::kZbH1;
               p.recompute = RecomputeKind::kSelective, p.sequence_parallel = true;
             })},
        Case{"StandardOffload", With([](Plan& p) {
               p.attention = kStandard, p.offload_activations = OffloadTarget::kHost;
             })},
        Case{"Dp4Zero1MlpTiles", With([](Plan& p) {
               p.dp = 4, p.zero_stage = 1, p.mlp_tiles = 3, p.recompute = RecomputeKind::kFull;
             })},
        Case{"Pp2DualPipeVTp2",
             With([](Plan& p) { p.pp = p.tp = 2, p.schedule = ScheduleKind::kDualPipeV; })},
        Case{"Dp2Pp2DualPipe",
             With([](Plan& p) { p.dp = p.pp = 2, p.schedule = ScheduleKind::kDualPipe; })}),
    NameOfTest);

TEST(Dropout, OfExpertsIsThatOfOneRank) {
  Plan plan = Dropped(TinyPlan());
  plan.attention = kStandard;
  const Plan single = plan;
  plan.dp = plan.tp = plan.ep = 2;
  plan.sequence_parallel = true;
  plan.recompute = RecomputeKind::kFull;
  ExpectTrainsAlike(TinyExperts(), single, plan, 0.1);
}

// Two steps on one batch differ by their masks. Runs with one seed agree; other seeds differ.
TEST(Dropout, FollowsTheSeed) {
  const Plan plan = Dropped(TinyPlan());
  TrainingOptions options;
  options.steps = 2;
  const Trained first = TrainTiny(TinyGpt(), plan, options);
  EXPECT_TRUE(SameBits(first, TrainTiny(TinyGpt(), plan, options)));
  options.weights = InitialWeights(TinyGpt(), options.seed);
  options.seed = 6;
  EXPECT_NE(TrainTiny(TinyGpt(), plan, options).losses, first.losses);
}

// fp32 sums of 16 tokens in another order.
TEST(Dropout, StandardAttentionTrainsAsFlashAttentionDoes) {
  for (const double probability : {0.0, 0.2}) {
    for (const ModelSpec& model : {TinyGpt(true), TinyLlama(), TinyExperts()}) {
      Plan plan = Dropped(TinyPlan(), probability);
      const Plan flash = plan;
      plan.attention = kStandard;
      ExpectTrainsAlike(model, flash, plan, 0.1);
    }
  }
}

// Kept numbers are scaled up so that the mean over masks is unchanged. Over 32 seeds the first
// step's loss equals that without dropout, up to the loss's curvature (second order in the noise)
// and the mean's deviation.
TEST(Dropout, LeavesTheLossOnAverage) {
  TrainingOptions options;
  options.steps = 1;
  options.weights = InitialWeights(TinyGpt(), 5);
  const double plain = TrainTiny(TinyGpt(), TinyPlan(), options).losses[0];
  Plan plan = TinyPlan();
  plan.dropout = plan.attention_dropout = 0.1;
  double sum = 0, squares = 0;
  constexpr int kSeeds = 32;
  for (int seed = 0; seed < kSeeds; ++seed) {
    options.seed = static_cast<std::uint64_t>(seed);
    const double loss = TrainTiny(TinyGpt(), plan, options).losses[0];
    sum += loss;
    squares += loss * loss;
  }
  const double mean = sum / kSeeds;
  const double deviation = std::sqrt(std::max(0.0, squares / kSeeds - mean * mean) / kSeeds);
  EXPECT_GT(deviation, 0.0);
  EXPECT_NEAR(mean, plain, 4 * deviation + 2e-3 * plain);
}

// Masks of one byte a number, and stored attention matrices, with 16-bit activations.
TEST(Dropout, TrainsIn16Bits) {
  for (const AttentionAlgorithm attention : {AttentionAlgorithm::kFlash, kStandard}) {
    Plan plan = Dropped(TinyPlan());
    plan.attention = attention;
    const Trained fp32 = TrainTiny(TinyGpt(), plan);
    plan.precision = Precision::kBf16;
    const Trained bf16 = TrainTiny(TinyGpt(), plan);
    for (std::size_t step = 0; step < fp32.losses.size(); ++step) {
      EXPECT_NEAR(bf16.losses[step], fp32.losses[step], 2e-2 * fp32.losses[step]);
    }
  }
}

}  // namespace
}  // namespace foretrain
