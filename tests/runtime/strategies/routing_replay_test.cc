// Long trainings of mixtures of experts are comparable only with equal choices, since rounding can
// flip a close one. One rank's choices are recorded and replayed in other plans.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/runtime/strategies/routing_choices.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSteps = 20;
constexpr double kLossTolerance = 1e-5;

// Balanced over 4 tokens, which every plan keeps together; two groups with two experts each.
ModelSpec Model() {
  ModelSpec model = TinyExperts();
  model.balance_tokens = 4;
  model.expert_groups = 4;
  model.groups_per_token = 2;
  return model;
}

std::vector<float> Losses(const Plan& plan, Choices& choices) {
  choices.Follow(plan);
  TrainingOptions options;
  options.steps = kSteps;
  // Roundings grow over 20 steps: to less than 1e-5 from these weights, to 4e-5 from some others.
  options.seed = 4;
  options.routing = &choices;
  return TrainTiny(Model(), plan, options).losses;
}

struct Case {
  const char* name;
  double capacity_factor;
  void (*change)(Plan& plan);
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

const Case kCases[] = {
    {"Ep2", 0, [](Plan& p) { p.dp = p.ep = 2; }},
    {"Ep4PiecesZero3", 0, [](Plan& p) { p.dp = p.ep = 4, p.moe_pieces = 2, p.zero_stage = 3; }},
    {"Cp2Ep2Recompute", 0, [](Plan& p) { p.cp = p.ep = 2, p.recompute = RecomputeKind::kFull; }},
    {"Tp2Ep2Whole", 0,
     [](Plan& p) { p.tp = p.ep = 2, p.expert_tp = 1, p.sequence_parallel = true; }},
    {"Tp2Pp2", 0, [](Plan& p) { p.tp = p.pp = 2; }},
    {"Capacity_Dp4Ep2Zero1", 1.25, [](Plan& p) { p.dp = 4, p.ep = 2, p.zero_stage = 1; }},
    {"Capacity_Ep2PiecesPp2ZbH1", 0.75,
     [](Plan& p) { p.dp = p.ep = p.pp = p.moe_pieces = 2, p.schedule = ScheduleKind::kZbH1; }},
};

class RoutingReplay : public testing::TestWithParam<Case> {};

TEST_P(RoutingReplay, TwentyStepsAreThoseOfOneRank) {
  Plan single = TinyPlan();
  single.capacity_factor = GetParam().capacity_factor;
  Plan plan = single;
  GetParam().change(plan);
  Choices reference;
  const std::vector<float> expected = Losses(single, reference);
  // 3 layers with experts, 8 samples of 16 tokens a step.
  ASSERT_EQ(reference.recorded().size(), static_cast<std::size_t>(kSteps * 3 * 8 * 16));
  Choices laid_down(reference.recorded());
  const std::vector<float> actual = Losses(plan, laid_down);
  EXPECT_EQ(laid_down.recorded(), reference.recorded());
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(actual[step], expected[step], kLossTolerance * expected[step]) << "step " << step;
  }
  EXPECT_LT(expected.back(), expected.front() - 1) << "it does not learn";
}

INSTANTIATE_TEST_SUITE_P(Plans, RoutingReplay, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RoutingReplayOfOneRank, IsTheRunItselfAndOtherChoicesAreNot) {
  Choices reference;
  const std::vector<float> expected = Losses(TinyPlan(), reference);
  Choices same(reference.recorded());
  EXPECT_EQ(Losses(TinyPlan(), same), expected);
  auto turned = reference.recorded();
  for (auto& [token, chosen] : turned) {
    for (std::int32_t& expert : chosen) expert = 3 - expert;
  }
  Choices other(turned);
  EXPECT_NE(Losses(TinyPlan(), other), expected);
}

}  // namespace
}  // namespace foretrain
