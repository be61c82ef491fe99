// Multi-token prediction (MTP) with several layers: the size of their losses, and that every plan
// trains them as one rank does.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/matrix_checks.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

ModelSpec WithMtp(int layers) {
  ModelSpec model = TinyLatent();
  model.predict_ahead = layers;
  return model;
}

// A guess costs log 256 a token. The layer that predicts d + 1 tokens ahead has no target for the
// last d of 16 tokens. Layers share predict_weight: with weight 1 and two layers, the sum is (15 +
// 14) / 32 larger.
TEST(MtpLayers, AddThePartsOfTheirLosses) {
  ModelSpec model = WithMtp(2);
  model.predict_weight = 1;
  TrainingOptions first;
  first.steps = 1;
  const double guess = std::log(256.0);
  EXPECT_NEAR(TrainTiny(model, TinyPlan(), first).losses[0], guess * (1 + 29.0 / 32), 0.1);
  model.predict_ahead = 3;  // (15 + 14 + 13) / 48
  EXPECT_NEAR(TrainTiny(model, TinyPlan(), first).losses[0], guess * (1 + 42.0 / 48), 0.1);
}

// With weight 0 for prediction and balance, the rest trains like the model without these layers.
TEST(MtpLayers, LeaveTheModelWithoutThemAsItIsWhereTheyWeighNothing) {
  ModelSpec model = WithMtp(2);
  model.predict_weight = model.balance_weight = 0;
  const Trained with = TrainTiny(model, TinyPlan());
  model.predict_ahead = 0;
  const Trained without = TrainTiny(model, TinyPlan());
  ASSERT_EQ(with.losses.size(), without.losses.size());
  for (std::size_t step = 0; step < with.losses.size(); ++step) {
    EXPECT_NEAR(with.losses[step], without.losses[step], 1e-5 * without.losses[step]);
  }
}

std::vector<Case> MtpCases() {
  return {
      {"Tp2", With([](Plan& p) { p.tp = 2; })},
      {"Tp2SequenceParallelVocabParallel",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = p.vocab_parallel = true; })},
      {"Dp2Zero3", With([](Plan& p) { p.dp = 2, p.zero_stage = 3; })},
      {"Pp2FullRecompute", With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; })},
      {"Pp2ZbH1Selective", With([](Plan& p) {
         p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.recompute = RecomputeKind::kSelective;
       })},
      {"Dp2Ep2", With([](Plan& p) { p.dp = p.ep = 2, p.capacity_factor = 2; })},
      {"Dp2Ep2Dropless", With([](Plan& p) { p.dp = p.ep = 2; })},
      {"Dp4Ep2DroplessPiecesZero3FullRecompute", With([](Plan& p) {
         p.dp = 4, p.ep = 2, p.moe_pieces = 2, p.zero_stage = 3;
         p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Tp2WholeExpertsDroplessSelective", With([](Plan& p) {
         p.dp = p.tp = 2, p.ep = 4, p.expert_tp = 1, p.sequence_parallel = true;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Pp2Dp2Ep2DroplessZbH1",
       With([](Plan& p) { p.pp = p.dp = p.ep = 2, p.schedule = ScheduleKind::kZbH1; })},
      {"Pp2ActivationsAway",
       With([](Plan& p) { p.pp = 2, p.offload_activations = OffloadTarget::kHost; })},
  };
}

class MtpPlans : public testing::TestWithParam<Case> {};

TEST_P(MtpPlans, TrainTwoMtpLayersAsOneRankDoes) {
  MatrixCase one;
  one.model = WithMtp(2);
  one.plan = GetParam().plan;
  one.name = GetParam().name;
  CheckCase(one, /*steps=*/3);
  one.model.tied_embeddings = true;
  CheckCase(one, /*steps=*/3);
}

INSTANTIATE_TEST_SUITE_P(Plans, MtpPlans, testing::ValuesIn(MtpCases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain
