#include "sim/search/evaluator.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/cost/derive_profile.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// Each field that a table leaves out of its keys is one that it does not read: what was worked out
// for another plan would show.
TEST(Evaluator, GivesTheSameFiguresWhateverItHasSeenBefore) {
  std::map<std::string, std::unique_ptr<Evaluator>> used;
  std::map<std::string, std::pair<ModelSpec, std::unique_ptr<CostModel>>> machines;
  for (std::uint64_t i = 0; i < 250; ++i) {
    const RealisticPlan drawn = RealisticPlanOf(i);
    const std::string name = drawn.model.name + " " + drawn.cluster.name;
    auto& [model, costs] = machines[name];
    if (costs == nullptr) {
      model = drawn.model;
      auto made = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
      ASSERT_TRUE(made.has_value());
      costs = std::make_unique<CostModel>(*std::move(made));
      used[name] = std::make_unique<Evaluator>(model, *costs, AllPlanFields());
    }
    const Evaluation again = used[name]->Evaluate(drawn.plan);
    const Evaluation fresh = Evaluator(model, *costs, AllPlanFields()).Evaluate(drawn.plan);
    EXPECT_EQ(again.step_s, fresh.step_s) << i << ' ' << name << ' ' << Describe(drawn.plan);
    EXPECT_EQ(again.bound_s, fresh.bound_s) << i;
    EXPECT_EQ(again.memory_bytes, fresh.memory_bytes) << i;
    EXPECT_EQ(again.host_bytes, fresh.host_bytes) << i;
  }
}

TEST(Evaluator, EndsWhereItIsTold) {
  const RealisticPlan drawn = RealisticPlanOf(3);
  const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
  ASSERT_TRUE(costs.has_value());
  Evaluator evaluator(drawn.model, *costs, AllPlanFields());
  const Evaluation all = evaluator.Evaluate(drawn.plan);
  Evaluation out;
  EXPECT_EQ(evaluator.Evaluate(drawn.plan, {1, {}}, out), Evaluator::Reached::kState);
  EXPECT_EQ(evaluator.Evaluate(drawn.plan, {all.memory_bytes - 1, {}}, out),
            Evaluator::Reached::kMemory);
  EXPECT_EQ(evaluator.Evaluate(drawn.plan,
                               {all.memory_bytes, [](const Evaluation&) { return true; }}, out),
            Evaluator::Reached::kBound);
  EXPECT_EQ(out.bound_s, all.bound_s);
  EXPECT_EQ(out.step_s, 0);
  EXPECT_EQ(evaluator.Evaluate(drawn.plan, {all.memory_bytes, {}}, out), Evaluator::Reached::kEnd);
  EXPECT_EQ(out.step_s, all.step_s);
}

// All values of the fields that may be free, of which each plan of the family has some.
PlanFamily WholeFamily(const Plan& plan) {
  PlanFamily family;
  for (const auto& [name, values] :
       std::map<std::string, std::vector<std::int64_t>>{{"zero_stage", {0, 1, 2, 3}},
                                                        {"sequence_parallel", {0, 1}},
                                                        {"vocab_parallel", {0, 1}},
                                                        {"tp_tiles", {1, 4}},
                                                        {"recompute", {0, 1, 2}},
                                                        {"offload_optimizer", {0, 1}},
                                                        {"offload_activations", {0, 1}}}) {
    const bool of_tp =
        name == "sequence_parallel" || name == "vocab_parallel" || name == "tp_tiles";
    const bool alone = (of_tp && plan.tp == 1) || (name == "zero_stage" && plan.dp * plan.cp == 1);
    family.free.push_back({&PlanFieldOf(name), values});
    if (alone) family.free.back().values.resize(1);
  }
  SetKey(family);
  return family;
}

TEST(Evaluator, KnowsWhatNoPlanOfAFamilyGoesBelow) {
  int known = 0;
  std::int64_t plans = 0;
  for (std::uint64_t i = 0; i < 24; ++i) {
    const RealisticPlan drawn = RealisticPlanOf(i);
    const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
    ASSERT_TRUE(costs.has_value());
    Evaluator evaluator(drawn.model, *costs, AllPlanFields());
    const PlanFamily family = WholeFamily(drawn.plan);
    Evaluation fastest;  // of blocks alone
    const Evaluator::Limits limits{std::numeric_limits<std::int64_t>::max(),
                                   [&fastest](const Evaluation& asked) {
                                     if (asked.memory_bytes == 0) fastest = asked;
                                     return false;
                                   }};
    Evaluation least;
    EXPECT_EQ(evaluator.EvaluateLeast(drawn.plan, family, limits, least), Evaluator::Reached::kEnd);
    if (least.bound_s > 0) ++known;
    EXPECT_EQ(fastest.least_s > 0, least.least_s > 0);
    ForEach(family, drawn.plan, [&](const Plan& plan) {
      if (!ValidatePlan(plan, drawn.model)) return;
      const Evaluation one = evaluator.Evaluate(plan);
      ++plans;
      EXPECT_GE(one.memory_bytes, least.memory_bytes) << i << ' ' << Describe(plan);
      EXPECT_GE(one.least_s, least.least_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
      EXPECT_GE(one.bound_s, least.bound_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
      EXPECT_GE(one.least_s, fastest.least_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
      EXPECT_GE(one.bound_s, fastest.bound_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
    });
  }
  EXPECT_GT(known, 12);
  EXPECT_GT(plans, 1000);
}

// Parts are what the step and the memory are made of.
TEST(Evaluator, UnfoldsIntoParts) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    const RealisticPlan drawn = RealisticPlanOf(i);
    const auto costs = CostModel::Make(drawn.cluster, DeriveProfile(drawn.cluster));
    ASSERT_TRUE(costs.has_value());
    const Evaluation e = Evaluator(drawn.model, *costs, AllPlanFields()).Evaluate(drawn.plan);
    const StepParts& p = e.parts;
    const double sum = p.compute_s + p.communication_s + p.bubble_s + p.sums_s + p.update_s;
    EXPECT_NEAR(sum, e.step_s, 1e-6 * e.step_s + 1e-12) << i << ' ' << Describe(drawn.plan);
    EXPECT_LE(e.bound_s, e.step_s * (1 + 1e-6)) << i << ' ' << Describe(drawn.plan);
    const MemoryParts& m = e.memory;
    EXPECT_EQ(m.parameters + m.gradients + m.optimizer + m.other_state + m.activations +
                  m.transient + m.outside,
              e.memory_bytes)
        << i;
  }
}

}  // namespace
}  // namespace foretrain
