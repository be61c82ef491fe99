// Runs that go on have the bits of those that were not interrupted: every preset at toy size, and
// state of other kinds than in resume_test.cc. Slow: each trains a small model on eight ranks.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

class PresetResume : public testing::TestWithParam<Preset> {};

TEST_P(PresetResume, HasTheBitsOfARunThatWasNotInterrupted) {
  ModelSpec model =
      ModelFor(GetParam(), GetParam().Has(PlanFieldOf("ep")) ? TinyExperts() : TinyGpt());
  model.layers = 8;
  Plan plan = ToyPlan(GetParam(), model, 8);
  plan.bucket_bytes = std::min(plan.bucket_bytes, TinyPlan().bucket_bytes);
  ExpectGoesOnToTheBit(model, plan);
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetResume, testing::ValuesIn(AllPresets()), NameOfPreset);

struct StateCase {
  const char* name;
  ModelSpec model;
  Plan plan;
};
void PrintTo(const StateCase& one, std::ostream* out) { *out << one.name; }

class StateResume : public testing::TestWithParam<StateCase> {};

TEST_P(StateResume, HasTheBitsOfARunThatWasNotInterrupted) {
  ExpectGoesOnToTheBit(GetParam().model, GetParam().plan);
}

std::vector<StateCase> StateCases() {
  const auto bf16 = [](Plan& p) { p.dp = 2, p.zero_stage = 1, p.precision = Precision::kBf16; };
  Plan masters = TinyPlan();
  bf16(masters);
  Plan scaled = TinyPlan();
  scaled.dp = 2;
  scaled.precision = Precision::kFp16;
  scaled.loss_scale = 65536;
  scaled.loss_scale_window = 2;
  Plan codes = masters;
  codes.moments = MomentFormat::kInt8;
  Plan rounded = masters;
  rounded.weights = WeightStorage::kAlone;
  Plan delayed = masters;
  delayed.offload_optimizer = OffloadTarget::kHost;
  delayed.delayed_update = true;
  Plan experts = TinyPlan();
  experts.dp = experts.ep = 2;
  ModelSpec biased = TinyLatent();
  biased.router_bias_rate = 0.01;
  Plan sgd = TinyPlan(), momentum = masters, lion = TinyPlan();
  sgd.optimizer = OptimizerKind::kSgd;
  momentum.optimizer = OptimizerKind::kMomentum;
  lion.optimizer = OptimizerKind::kLion;
  return {{"Masters", TinyGpt(), masters},       {"DynamicLossScale", TinyGpt(), scaled},
          {"EightBitMoments", TinyGpt(), codes}, {"WeightsInBf16", TinyGpt(), rounded},
          {"DelayedUpdate", TinyGpt(), delayed}, {"Experts", TinyExperts(), experts},
          {"RouterBias", biased, experts},       {"Sgd", TinyGpt(), sgd},
          {"Momentum", TinyGpt(), momentum},     {"Lion", TinyGpt(), lion}};
}

INSTANTIATE_TEST_SUITE_P(State, StateResume, testing::ValuesIn(StateCases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain
