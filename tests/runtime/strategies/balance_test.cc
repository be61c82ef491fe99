// Router biases follow the experts' loads: each step's choices are counted here by hand and
// compared with the biases under every plan.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/matrix_checks.h"
#include "tests/runtime/strategies/routing_choices.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr double kRate = 0.01;
constexpr int kSteps = 3;

ModelSpec Balanced(int ahead = 0) {
  ModelSpec model = TinyLatent();
  model.router_bias_rate = kRate;
  model.predict_ahead = ahead;
  return model;
}

// By block of a layer with experts: its biases after all steps.
using Biases = std::map<int, std::vector<double>>;
Biases BiasesOf(const RoutedTokens& chosen, std::int64_t experts) {
  Biases biases;
  for (int step = 0; step < kSteps; ++step) {
    std::map<int, std::vector<double>> loads;
    for (const auto& [token, list] : chosen) {
      if (std::get<0>(token) != step) continue;
      auto& of_block = loads[std::get<1>(token)];
      of_block.resize(static_cast<std::size_t>(experts));
      for (const std::int32_t expert : list) of_block[static_cast<std::size_t>(expert)] += 1;
    }
    for (const auto& [block, of_block] : loads) {
      double sum = 0;
      for (const double load : of_block) sum += load;
      const double mean = sum / static_cast<double>(experts);
      auto& of = biases[block];
      of.resize(of_block.size());
      for (std::size_t e = 0; e < of.size(); ++e) {
        of[e] += of_block[e] < mean ? kRate : of_block[e] > mean ? -kRate : 0;
      }
    }
  }
  return biases;
}

std::vector<Case> BalanceCases() {
  return {
      {"One", TinyPlan()},
      {"MicroBatchesOfTwoRanks", With([](Plan& p) { p.dp = 2; })},
      {"Dp2Zero3FullRecompute",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; })},
      {"Tp2", With([](Plan& p) { p.tp = 2; })},
      {"Ep2WholeExperts",
       With([](Plan& p) { p.tp = p.ep = 2, p.expert_tp = 1, p.sequence_parallel = true; })},
      {"Dp2Ep2", With([](Plan& p) { p.dp = p.ep = 2; })},
      {"Pp2ZbH1", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1; })},
      {"Pp2DualPipe", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe; })},
      {"Dp2Zero1Bf16",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 1, p.precision = Precision::kBf16; })},
      {"OptimizerAway", With([](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; })},
  };
}

class Balance : public testing::TestWithParam<Case> {};

TEST_P(Balance, MovesBiasesAgainstWhatExpertsGot) {
  const ModelSpec model = Balanced();
  Choices choices;
  choices.Follow(GetParam().plan);
  TrainingOptions options;
  options.steps = kSteps;
  options.routing = &choices;
  const Trained trained = TrainTiny(model, GetParam().plan, options);
  const Biases expected = BiasesOf(choices.recorded(), model.experts);
  ASSERT_EQ(expected.size(), 3U);  // all layers except the first
  for (const auto& [block, biases] : expected) {
    const std::string name = "layers." + std::to_string(block - 1) + ".router.choice.bias";
    const std::vector<float>& actual = trained.parameters.at(name).values;
    ASSERT_EQ(actual.size(), biases.size());
    for (std::size_t e = 0; e < biases.size(); ++e) {
      EXPECT_NEAR(actual[e], biases[e], 1e-6) << name << ' ' << e;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, Balance, testing::ValuesIn(BalanceCases()),
                         [](const auto& test) { return std::string(test.param.name); });

// MTP layers have their own routers, in the head's block.
TEST(BalanceMtp, MovesTheBiasesOfEachLayer) {
  TrainingOptions first;
  first.steps = 1;
  const Trained trained = TrainTiny(Balanced(/*ahead=*/2), TinyPlan(), first);
  for (const char* name : {"ahead.0.router.choice.bias", "ahead.1.router.choice.bias"}) {
    double moved = 0;
    for (const float bias : trained.parameters.at(name).values) moved += bias != 0 ? 1 : 0;
    EXPECT_GT(moved, 0) << name;
  }
}

// With rate 0 biases do not change, and training is the same as without them.
TEST(BalanceMtp, LeavesBiasesWithoutARateAsTheyAre) {
  const Trained trained = TrainTiny(TinyLatent(), TinyPlan());
  for (const float bias : trained.parameters.at("layers.2.router.choice.bias").values) {
    EXPECT_EQ(bias, 0.0F);
  }
}

}  // namespace
}  // namespace foretrain
