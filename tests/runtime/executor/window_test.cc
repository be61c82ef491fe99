// Training with attention windows: their effect on gradients, and that all kinds of parallelism
// train as one rank does.
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// Tokens see 5 tokens; in layers 2 and 4 all tokens before them.
ModelSpec Windowed(ModelSpec model) {
  model.attention_window = 5;
  model.global_attention_every = 2;
  return model;
}

Plan Clipped(Plan plan) {
  plan.clip_norm = 0.5;
  return plan;
}

class WindowEquality : public testing::TestWithParam<Case> {};

TEST_P(WindowEquality, LossesAndGradientsAreThoseOfOneRank) {
  ExpectTrainsAlike(Windowed(TinyLlama()), Clipped(TinyPlan()), Clipped(GetParam().plan));
}

std::string NameOfTest(const testing::TestParamInfo<Case>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(ContextPlans, WindowEquality, testing::ValuesIn(ContextCases()),
                         NameOfTest);
INSTANTIATE_TEST_SUITE_P(
    Plans, WindowEquality,
    testing::Values(Case{"MicroBatch2", With([](Plan& p) { p.micro_batch = 2; })},
                    Case{"Dp2Tp2Pp2Zero1Recompute", With([](Plan& p) {
                           p.dp = p.tp = p.pp = 2, p.zero_stage = 1;
                           p.recompute = RecomputeKind::kFull;
                         })},
                    Case{"Tp2Pp2ZbH1SelectiveSequenceParallel", With([](Plan& p) {
                           p.tp = p.pp = 2, p.schedule = ScheduleKind::kZbH1;
                           p.recompute = RecomputeKind::kSelective, p.sequence_parallel = true;
                         })},
                    Case{"Dp2Pp2DualPipeVZero3", With([](Plan& p) {
                           p.dp = p.pp = 2, p.schedule = ScheduleKind::kDualPipeV;
                           p.zero_stage = 3;
                         })},
                    Case{"Pp3", With([](Plan& p) { p.pp = 3; })}),
    NameOfTest);

TEST(Window, OfTheWholeSequenceChangesNoBit) {
  ModelSpec model = TinyGpt();
  const Trained whole = TrainTiny(model, TinyPlan());
  model.attention_window = TinyPlan().sequence;
  EXPECT_EQ(TrainTiny(model, TinyPlan()).losses, whole.losses);
  model.attention_window = 4;
  const Trained windowed = TrainTiny(model, TinyPlan());
  EXPECT_NE(windowed.losses, whole.losses);
  model.global_attention_every = 2;
  EXPECT_NE(TrainTiny(model, TinyPlan()).losses, windowed.losses);
  EXPECT_NE(TrainTiny(model, TinyPlan()).losses, whole.losses);
}

TEST(Window, TrainsWithAndWithoutPoisonToTheSameBits) {
  TrainingOptions plain;
  plain.poison = false;
  for (const ContextParallelKind kind : {kCpRing, kCpAllGather, kCpAllToAll}) {
    Plan plan = TinyPlan();
    plan.cp = 2;
    plan.cp_kind = kind;
    const ModelSpec model = Windowed(TinyGpt());
    EXPECT_EQ(TrainTiny(model, plan).losses, TrainTiny(model, plan, plain).losses) << Name(kind);
  }
}

}  // namespace
}  // namespace foretrain
