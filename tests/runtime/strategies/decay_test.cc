// Which parameters weight decay applies to.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/training.h"

namespace foretrain {
namespace {

bool IsTable(const std::string& name) { return name.starts_with("embedding."); }

Trained OneStepWith(DecayKind decay, Plan plan, const ModelSpec& model) {
  plan.decay = decay;
  TrainingOptions options;
  options.steps = 1;
  return TrainTiny(model, plan, options);
}

// The first step's gradients are the same, so updates differ by the decay alone: learning rate 0.01
// times decay 0.1 of a parameter, 0.001 of a norm's weight of 1. Biases are 0 at first.
TEST(Decay, AppliesToTheParametersThatThePlanNames) {
  for (const bool tied : {true, false}) {
    const ModelSpec model = TinyGpt(tied);
    const Trained matrices = OneStepWith(DecayKind::kMatrices, TinyPlan(), model);
    const Trained no_tables = OneStepWith(DecayKind::kNoEmbeddings, TinyPlan(), model);
    const Trained all = OneStepWith(DecayKind::kAll, TinyPlan(), model);
    int tables = 0, norms = 0;
    for (const auto& [name, tensor] : matrices.parameters) {
      const std::vector<float>& without = no_tables.parameters.at(name).values;
      const std::vector<float>& with = all.parameters.at(name).values;
      const bool is_norm = tensor.rows == 1 && name.ends_with("weight");
      EXPECT_EQ(tensor.values == without, !IsTable(name)) << name;
      EXPECT_EQ(tensor.values == with, !is_norm) << name;
      tables += IsTable(name);
      norms += is_norm;
      if (is_norm) {
        EXPECT_NEAR(tensor.values[0] - with[0], 1e-3, 1e-6) << name;
      }
    }
    EXPECT_EQ(tables, 2) << "tokens and positions";
    EXPECT_EQ(norms, 2 * 4 + 1);
  }
}

// Under SGD with momentum: AdamW moves a parameter whose gradient is roundings by the learning
// rate.
TEST(Decay, IsTheSameUnderEveryLayout) {
  void (*const changes[])(Plan&) = {
      [](Plan& p) { p.dp = 2, p.zero_stage = 1; }, [](Plan& p) { p.dp = 2, p.zero_stage = 3; },
      [](Plan& p) { p.tp = 2, p.sequence_parallel = true, p.vocab_parallel = true; },
      [](Plan& p) { p.pp = 2; }, [](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; }};
  for (const DecayKind decay : {DecayKind::kNoEmbeddings, DecayKind::kAll}) {
    Plan plan = TinyPlan();
    plan.optimizer = OptimizerKind::kMomentum;
    plan.decay = decay;
    const Trained one = TrainTiny(TinyGpt(), plan);
    for (const auto change : changes) {
      Plan other = plan;
      change(other);
      EXPECT_LT(LargestDifference(TrainTiny(TinyGpt(), other).parameters, one.parameters), 1e-3)
          << Describe(other);
    }
  }
}

}  // namespace
}  // namespace foretrain
