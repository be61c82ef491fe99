// A plan changes who computes what and when, never what is computed: every plan trains the same
// model as one rank does. All runs have poisoned memory, so that a use of what is dead shows as
// NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <tuple>

#include "equality_cases.h"
#include "training.h"

namespace foretrain {
namespace {

// fp32 sums of 128 tokens in another order: 2^-24 * sqrt(128) = 7e-7 of the terms' size, and some
// more through 4 layers.
constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 5e-5;

struct Family {
  const char* name;
  ModelSpec model;
  double clip_norm;
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

std::vector<Family> Families() {
  return {{"Gpt", TinyGpt(true), 0.0},
          {"GptUntiedClipped", TinyGpt(false), 0.5},
          {"GptClipped", TinyGpt(true), 0.5},
          {"LlamaClipped", TinyLlama(), 0.5}};
}

class Equality : public testing::TestWithParam<std::tuple<Family, Case>> {};

TEST_P(Equality, LossesAndGradientsAreThoseOfOneRank) {
  const auto& [family, one] = GetParam();
  Plan single = TinyPlan();
  single.clip_norm = family.clip_norm;
  Plan plan = one.plan;
  plan.clip_norm = family.clip_norm;
  const Trained expected = TrainTiny(family.model, single);
  const Trained actual = TrainTiny(family.model, plan);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  ASSERT_NEAR(expected.losses[0], std::log(256.0), 0.2) << "an untrained model guesses";
  EXPECT_LT(expected.losses.back(), expected.losses[0] - 0.3) << "it does not learn";
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], kLossTolerance * expected.losses[step])
        << "step " << step;
  }
  ASSERT_EQ(actual.squared_norms.size(), family.clip_norm > 0 ? expected.losses.size() : 0U);
  for (std::size_t step = 0; step < actual.squared_norms.size(); ++step) {
    EXPECT_NEAR(actual.squared_norms[step], expected.squared_norms[step],
                10 * kLossTolerance * expected.squared_norms[step])
        << "step " << step;
  }
  // Of one step, before Adam's division by small moments enlarges differences.
  TrainingOptions first;
  first.steps = 1;
  EXPECT_LT(LargestDifference(TrainTiny(family.model, single, first).gradients,
                              TrainTiny(family.model, plan, first).gradients),
            kGradientTolerance);
}

std::string NameOfTest(const testing::TestParamInfo<std::tuple<Family, Case>>& test) {
  return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name;
}

INSTANTIATE_TEST_SUITE_P(Plans, Equality,
                         testing::Combine(testing::ValuesIn(Families()),
                                          testing::ValuesIn(Cases())),
                         NameOfTest);

INSTANTIATE_TEST_SUITE_P(ContextPlans, Equality,
                         testing::Combine(testing::ValuesIn(Families()),
                                          testing::ValuesIn(ContextCases())),
                         NameOfTest);

INSTANTIATE_TEST_SUITE_P(OffloadPlans, Equality,
                         testing::Combine(testing::ValuesIn(Families()),
                                          testing::ValuesIn(OffloadCases())),
                         NameOfTest);

// Each rank has one key head, of four.
INSTANTIATE_TEST_SUITE_P(
    ContextPlansOfManyKeyHeads, Equality,
    testing::Combine(testing::Values(Families()[1], Families()[2]),
                     testing::Values(Case{"Cp4AllToAll",
                                          With([](Plan& p) { p.cp = 4, p.cp_kind = kCpAllToAll; })},
                                     Case{"Cp2Tp2Pp2AllToAllRecompute", With([](Plan& p) {
                                            p.cp = p.tp = p.pp = 2, p.cp_kind = kCpAllToAll;
                                            p.recompute = RecomputeKind::kFull;
                                          })})),
    NameOfTest);

// Four shares of 65 of 257 tokens: the last has 62 and 3 rows of padding, which stay zero.
TEST(Equality, HoldsWithAVocabularyThatRanksCannotShareEvenly) {
  for (const bool tied : {true, false}) {
    ModelSpec model = TinyGpt(tied);
    model.vocab = 257;
    Plan plan = TinyPlan();
    plan.clip_norm = 0.5;
    TrainingOptions first;
    first.steps = 1;
    const Trained expected = TrainTiny(model, plan);
    const Trained gradients = TrainTiny(model, plan, first);
    plan.tp = 4;
    plan.vocab_parallel = true;
    for (const bool more : {false, true}) {
      plan.sequence_parallel = more;
      plan.loss_chunks = more ? 3 : 1;
      plan.pp = more ? 2 : 1;
      const Trained actual = TrainTiny(model, plan);
      for (std::size_t step = 0; step < expected.losses.size(); ++step) {
        EXPECT_NEAR(actual.losses[step], expected.losses[step],
                    kLossTolerance * expected.losses[step])
            << Describe(plan) << " step " << step;
        EXPECT_NEAR(actual.squared_norms[step], expected.squared_norms[step],
                    10 * kLossTolerance * expected.squared_norms[step])
            << Describe(plan) << " step " << step;
      }
      EXPECT_LT(LargestDifference(gradients.gradients, TrainTiny(model, plan, first).gradients),
                kGradientTolerance)
          << Describe(plan);
    }
  }
}

}  // namespace
}  // namespace foretrain
