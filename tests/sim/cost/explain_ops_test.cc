#include "sim/cost/explain_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The ops of `plan` that match, with their costs.
Result<std::vector<ExplainedOp>> Explained(const ModelSpec& model, const Plan& plan,
                                           const ClusterSpec& cluster, const DeviceProfile& profile,
                                           std::string_view pattern) {
  FT_ASSIGN(const CostModel costs, CostModel::Make(cluster, profile));
  FT_ASSIGN(const Program program, Compile(model, plan));
  FT_ASSIGN(const ProgramCosts prices, costs.CostsOf(program));
  return ExplainOps(program, prices, costs, pattern);
}

ClusterSpec Gpus(std::string_view name, int nodes, int each) {
  const auto catalogue = BuiltInCatalogue();
  EXPECT_TRUE(catalogue.has_value());
  const auto gpu = FindGpu(*catalogue, name);
  EXPECT_TRUE(gpu.has_value()) << gpu.error().message;
  return *MakeCluster(*gpu, nodes, each, 25e9);
}

// Every figure of a forecast is what its terms make, to rounding.
void ExpectTermsMakeSeconds(const std::vector<ExplainedOp>& ops) {
  EXPECT_FALSE(ops.empty());
  for (const ExplainedOp& op : ops) {
    EXPECT_NEAR(op.terms.Total(), op.seconds, 1e-12 + 1e-12 * op.seconds)
        << op.op.name << " in " << op.block;
    EXPECT_GT(op.times, 0);
  }
}

class ExplainedPresets : public testing::TestWithParam<Preset> {};

TEST_P(ExplainedPresets, TermsMakeTheSecondsOfEachOp) {
  const Preset& preset = GetParam();
  const ModelSpec model = ModelFor(preset, SmallGpt());
  for (const char* gpu : {"A100-80GB-SXM", "H100-80GB-SXM"}) {
    const ClusterSpec cluster = Gpus(gpu, 2, 4);
    Plan plan = ToyPlan(preset, model, 8);
    plan.sequence = 8;
    plan.global_batch = std::int64_t{4} * plan.dp * plan.pp;
    const auto valid = ValidatePlan(plan, model);
    if (!valid.has_value()) {
      GTEST_SKIP() << "preset " << preset.name << " has no plan of 8 tokens of the toy model ("
                   << valid.error().message << "); every other preset runs";
    }
    const auto ops = Explained(model, plan, cluster, DeriveProfile(cluster, preset.system), "*");
    ASSERT_TRUE(ops.has_value()) << ops.error().message;
    ExpectTermsMakeSeconds(*ops);
  }
}
INSTANTIATE_TEST_SUITE_P(Presets, ExplainedPresets, testing::ValuesIn(AllPresets()), NameOfPreset);

// On a CPU some ops were measured; others of the kind are interpolated, and the rest have rates.
TEST(ExplainOps, ExplainsMeasuredAndInterpolatedOps) {
  const ClusterSpec cluster = CpuCluster(2, 2);
  DeviceProfile profile = DeriveProfile(cluster);
  AddPoint(profile, Timed(PointOf(GemmOp(8, 64, 16)), 1e-5));
  AddPoint(profile, Timed(PointOf(GemmOp(16, 64, 16)), 1.7e-5));
  AddPoint(profile, Timed(PointOf(SquaredNormOp(1000)), 1e-6));
  AddPoint(profile, Timed(PointOf(AllReduceOp(1000), 2, 1, 2), 1e-5));
  Plan plan;
  plan.dp = 2;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 4;
  const auto ops = Explained(SmallGpt(), plan, cluster, profile, "*");
  ASSERT_TRUE(ops.has_value()) << ops.error().message;
  ExpectTermsMakeSeconds(*ops);
  const auto has = [&](std::string_view term) {
    return std::any_of(ops->begin(), ops->end(), [&](const ExplainedOp& op) {
      const auto& list = op.terms.list();
      return std::any_of(list.begin(), list.end(),
                         [&](const CostTerm& of) { return of.name == term; });
    });
  };
  EXPECT_TRUE(has("law fitted to measured sizes"));
  EXPECT_TRUE(has("work / rate"));
}

// A product on an H100: its hot loop over the sustained share.
TEST(ExplainOps, NamesTheTermsOfAProduct) {
  const ClusterSpec cluster = Gpus("H100-80GB-SXM", 1, 2);
  const DeviceProfile profile = DeriveProfile(cluster);
  Plan plan;
  plan.tp = 2;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  plan.precision = Precision::kBf16;
  const auto ops = Explained(SmallGpt(), plan, cluster, profile, "mlp.up*");
  ASSERT_TRUE(ops.has_value()) << ops.error().message;
  const auto product = std::find_if(ops->begin(), ops->end(), [](const ExplainedOp& op) {
    return IsProduct(op.op.kind) && op.pass == Pass::kForward;
  });
  ASSERT_NE(product, ops->end());
  const auto& terms = product->terms.list();
  const auto share = std::find_if(terms.begin(), terms.end(), [](const CostTerm& term) {
    return term.name == "1 / sustained share";
  });
  ASSERT_NE(share, terms.end());
  EXPECT_DOUBLE_EQ(share->value, 1 / profile.kernels->architecture.sustained_share.value);
  // 4 layers, 2 micro-batches.
  EXPECT_EQ(product->times, 8);
}

TEST(ExplainOps, ListsTheNamesIfNoneMatches) {
  const ClusterSpec cluster = Gpus("H100-80GB-SXM", 1, 1);
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 1;
  const auto ops = Explained(SmallGpt(), plan, cluster, DeriveProfile(cluster), "mlp.upp");
  ASSERT_FALSE(ops.has_value());
  EXPECT_THAT(ops.error().message, AllOf(HasSubstr("\"mlp.upp\""), HasSubstr("mlp.up")));
}

// (2 + 3) * 2 + 1.
TEST(CostTerms, AddAndMultiplyInOrder) {
  CostTerms inner;
  inner.Seconds("a", 2);
  inner.Fact("rate", 7, "B/s");
  CostTerms terms;
  terms.Part("part", inner);
  terms.Seconds("b", 3);
  terms.Factor("twice", 2);
  terms.Factor("nothing", 1);
  terms.Seconds("c", 1);
  EXPECT_DOUBLE_EQ(terms.Total(), 11);
  EXPECT_EQ(terms.list().size(), 4U);
}

}  // namespace
}  // namespace foretrain
