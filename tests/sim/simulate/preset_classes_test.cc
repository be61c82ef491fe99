// Every preset compiles, verifies and simulates on 16 ranks. Simulating one rank per class gives
// the time of all ranks.
#include <gtest/gtest.h>

#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/sim/preset_plans.h"
#include "tests/sim/simulate/play.h"

namespace foretrain {
namespace {

class PresetClasses : public testing::TestWithParam<Preset> {};

// Sizes that 16 ranks share evenly, so that ranks of a class are equal.
ModelSpec EvenModel(const Preset& preset) {
  ModelSpec model = Gpt2();
  model.layers = 8;
  model.hidden = 512;
  model.heads = model.kv_heads = 16;
  model.head_dim = 32;
  model.ffn_hidden = 2048;
  model.vocab = 4096;
  if (preset.Has(PlanFieldOf("ep"))) {
    model.experts = 16;
    model.experts_per_token = 2;
    model.expert_ffn_hidden = 256;
  }
  return model;
}

TEST_P(PresetClasses, TakeAsLongWithOneRankAsWithAll) {
  const ModelSpec model = ModelFor(GetParam(), EvenModel(GetParam()));
  Plan plan = ToyPlan(GetParam(), model, 16);
  plan.sequence = 256;
  SCOPED_TRACE(Describe(plan));
  const auto all = Compile(model, plan);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  const auto verified = Verify(*all);
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  const auto some = Compile(model, plan, {.ranks = RankChoice::kClasses});
  ASSERT_TRUE(some.has_value()) << some.error().message;
  EXPECT_EQ(all->ranks.size(), 16U);
  EXPECT_LE(some->ranks.size(), 16U);
  const ClusterSpec cluster = GpuCluster(1, 16);
  const Simulation whole = Play(*all, cluster, {.timeline = false});
  const Simulation part = Play(*some, cluster, {.timeline = false});
  EXPECT_GT(whole.step_s, 0.0);
  EXPECT_NEAR(part.step_s, whole.step_s, 1e-9);
  EXPECT_NEAR(part.first_step_s, whole.first_step_s, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetClasses, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
