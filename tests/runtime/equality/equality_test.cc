// A plan changes who computes what and when, but not the result: every plan trains the same model
// as one rank does. All runs poison dead memory, so that its use shows as NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <tuple>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

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
  ExpectTrainsAlike(family.model, single, plan);
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

// Each rank has one of four key heads.
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

// Four shards of 65 of 257 tokens: the last has 62 tokens and 3 rows of padding, which stay zero.
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
