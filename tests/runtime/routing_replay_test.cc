// Long trainings of mixtures of experts compare only where all make the same choices: rounding
// turns a close one over. Choices of one rank are recorded, and laid down in other plans.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <ostream>
#include <tuple>
#include <vector>

#include "sim/program/blocks/context_parallel.h"
#include "training.h"

namespace foretrain {
namespace {

constexpr std::int64_t kSteps = 20;
constexpr double kLossTolerance = 1e-5;

// A token of the run, wherever it is dealt to experts.
using Token =
    std::tuple<std::int64_t, int, std::int64_t, std::int64_t>;  // step, block, sample, position

class Choices : public RoutingScript {
 public:
  explicit Choices(std::map<Token, std::vector<std::int32_t>> laid_down = {})
      : laid_down_(std::move(laid_down)) {}

  // Of the run that comes, whose micro-batches are one sample each.
  void Follow(const Plan& plan) { plan_ = plan; }

  bool Replay(const RoutingSite& site, std::span<std::int32_t> chosen) override {
    if (laid_down_.empty()) return false;
    for (std::int64_t row = 0; row < site.tokens; ++row) {
      const std::vector<std::int32_t>& token = laid_down_.at(TokenOf(site, row));
      std::copy(token.begin(), token.end(), chosen.begin() + row * site.per_token);
    }
    return true;
  }
  void Record(const RoutingSite& site, std::span<const std::int32_t> chosen) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::int64_t row = 0; row < site.tokens; ++row) {
      const auto first = chosen.begin() + row * site.per_token;
      recorded_[TokenOf(site, row)].assign(first, first + site.per_token);
    }
  }
  const std::map<Token, std::vector<std::int32_t>>& recorded() const { return recorded_; }

 private:
  // With sequence parallelism and whole experts a rank deals its own rows alone.
  Token TokenOf(const RoutingSite& site, std::int64_t row) const {
    const std::int64_t local = row + (plan_.ExpertsSpanTp() ? site.tp * site.tokens : 0);
    const std::int64_t chunk = plan_.sequence / (std::int64_t{2} * plan_.cp);
    const auto positions = ChunkPositions(plan_.sequence, plan_.cp, site.cp);
    const std::int64_t position =
        positions[static_cast<std::size_t>(local / chunk)] + local % chunk;
    return {site.step, site.block, site.dp * plan_.MicroBatches() + site.micro_batch, position};
  }

  Plan plan_;
  const std::map<Token, std::vector<std::int32_t>> laid_down_;
  std::map<Token, std::vector<std::int32_t>> recorded_;
  std::mutex mutex_;
};

// Balanced over 4 tokens that every plan keeps together, and in two groups of experts of four.
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
