// A quick subset of the plans of matrix_slow_test.cc with fewer steps, and every preset.
#include <gtest/gtest.h>

#include "tests/runtime/equality/matrix_checks.h"
#include "tests/runtime/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

constexpr std::size_t kQuick = 40;
constexpr int kSteps = 4;
constexpr int kPresetSteps = 6;

const Covering& Quick() {
  static const Covering covering = CoverPairs(1);
  return covering;
}

TEST(Matrix, CoversEveryPairThatIsPossible) {
  EXPECT_GE(Quick().cases.size(), kQuick);
  EXPECT_GT(Quick().pairs, 800);
  // Impossible pairs are e.g. two schedules, or splits that no pipeline can combine.
  EXPECT_LT(Quick().impossible.size(), 0.1 * Quick().pairs)
      << testing::PrintToString(Quick().impossible);
}

class QuickMatrix : public testing::TestWithParam<std::size_t> {};

TEST_P(QuickMatrix, TrainsAsOneRankDoes) {
  const std::vector<MatrixCase>& cases = Quick().cases;
  CheckCase(cases[GetParam() * cases.size() / kQuick], kSteps);
}

INSTANTIATE_TEST_SUITE_P(Plans, QuickMatrix, testing::Range(std::size_t{0}, kQuick));

// Two of four ranks have no part in the norm, and must report that at each step.
TEST(Matrix, HoldsForAValidatedNormInWhichSomeRanksHaveNoPart) {
  MatrixCase one;
  one.model = TinyExperts();
  one.model.balance_tokens = 4;
  one.plan = TinyPlan();
  one.plan.dp = 4;
  one.plan.ep = one.plan.pp = 2;
  one.plan.schedule = ScheduleKind::kZbH1;
  one.plan.post_validation = true;
  one.plan.clip_norm = 0.5;
  one.name = Describe(one.plan);
  CheckCase(one, kSteps);
}

class PresetMatrix : public testing::TestWithParam<Preset> {};

TEST_P(PresetMatrix, TrainsAsOneRankDoes) {
  MatrixCase one;
  one.model = ModelFor(GetParam(), GetParam().Has(PlanFieldOf("ep")) ? TinyExperts() : TinyGpt());
  one.model.layers = 8;
  if (one.model.experts > 0) one.model.balance_tokens = 4;  // kept together by every plan
  one.plan = ToyPlan(GetParam(), one.model, 8);
  one.plan.bucket_bytes = std::min(one.plan.bucket_bytes, TinyPlan().bucket_bytes);
  one.name = GetParam().name + " " + Describe(one.plan);
  CheckCase(one, kPresetSteps);
}

INSTANTIATE_TEST_SUITE_P(Presets, PresetMatrix, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
