#include "sim/search/evaluate/evaluator.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// A table may leave a field out of its keys only if it does not read it; otherwise values cached
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

// Layers without experts do not depend on expert parallelism; those next to the head do.
TEST(Evaluator, GivesTheSameFiguresOfExpertsWhateverItHasSeenBefore) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  ModelSpec model = ResolveModel("llama3-8b", "test", *catalogue)->model;
  model.layers = 4;
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 768;
  model.first_dense_layers = 2;
  const ClusterSpec cluster = *ParseCluster("4x8xh100-sxm", *catalogue);
  const auto costs = CostModel::Make(cluster, DeriveProfile(cluster));
  ASSERT_TRUE(costs.has_value());
  int compared = 0;
  for (const int mtp : {0, 1}) {
    model.predict_ahead = mtp;
    model.predict_weight = 0.3 * mtp;
    Evaluator used(model, *costs, AllPlanFields());
    for (unsigned choice = 0; choice < 64; ++choice) {
      Plan plan;
      plan.sequence = 1024;
      plan.micro_batch = 1;
      plan.precision = Precision::kBf16;
      // Multi-token prediction (MTP) layers need whole sequences.
      plan.dp = mtp == 0 ? 4 : 8;
      plan.tp = 4;
      plan.cp = mtp == 0 ? 2 : 1;
      plan.global_batch = 16;
      plan.ep = 2 << (choice % 4);
      plan.expert_tp = choice / 4 % 2;
      plan.sequence_parallel = true;
      plan.vocab_parallel = choice / 8 % 2 == 1;
      plan.cp_kind =
          choice / 16 % 2 == 0 ? ContextParallelKind::kRing : ContextParallelKind::kAllGather;
      plan.tp_tiles = mtp == 1 && choice / 16 % 2 == 1 ? 4 : 1;
      plan.zero_stage = choice / 32 == 0 ? 1 : 3;
      if (!ValidatePlan(plan, model)) continue;
      ++compared;
      const Evaluation again = used.Evaluate(plan);
      const Evaluation fresh = Evaluator(model, *costs, AllPlanFields()).Evaluate(plan);
      EXPECT_EQ(again.step_s, fresh.step_s) << mtp << ' ' << Describe(plan);
      EXPECT_EQ(again.memory_bytes, fresh.memory_bytes) << mtp << ' ' << Describe(plan);
    }
  }
  // Out of 64, those whose ep divides the 8 experts.
  EXPECT_EQ(compared, 96);
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

// All values of the fields that may be free; each plan of the family has some of them.
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
    Evaluation fastest;  // of the blocks alone
    const Evaluator::Limits limits{std::numeric_limits<std::int64_t>::max(),
                                   [&fastest](const Evaluation& asked) {
                                     if (asked.memory_bytes == 0) fastest = asked;
                                     return false;
                                   }};
    Evaluation min;
    EXPECT_EQ(evaluator.EvaluateBound(drawn.plan, family, limits, min), Evaluator::Reached::kEnd);
    if (min.bound_s > 0) ++known;
    EXPECT_EQ(fastest.min_s > 0, min.min_s > 0);
    ForEach(family, drawn.plan, [&](const Plan& plan) {
      if (!ValidatePlan(plan, drawn.model)) return;
      const Evaluation one = evaluator.Evaluate(plan);
      ++plans;
      EXPECT_GE(one.memory_bytes, min.memory_bytes) << i << ' ' << Describe(plan);
      EXPECT_GE(one.min_s, min.min_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
      EXPECT_GE(one.bound_s, min.bound_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
      EXPECT_GE(one.min_s, fastest.min_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
      EXPECT_GE(one.bound_s, fastest.bound_s * (1 - 1e-12)) << i << ' ' << Describe(plan);
    });
  }
  EXPECT_GT(known, 12);
  EXPECT_GT(plans, 1000);
}

// A plan on 8 GPUs with one micro-batch, so that the end of a step is a large part of it.
Plan OneMicroBatch() {
  Plan plan;
  plan.sequence = 512;
  plan.micro_batch = 1;
  plan.precision = Precision::kBf16;
  return plan;
}

// Seconds of a step on 8 GPUs.
struct StepSeconds {
  double closed_form = 0, simulated = 0;
};
StepSeconds SecondsOf(const ModelSpec& model, const Plan& plan) {
  const ClusterSpec cluster = GpuCluster(1, 8);
  const auto costs = CostModel::Make(cluster, DeriveProfile(cluster));
  EXPECT_TRUE(costs.has_value());
  const auto forecast = MakeForecast(
      model, plan, *costs, {.ranks = RankChoice::kFirst, .simulate = {.timeline = false}});
  EXPECT_TRUE(forecast.has_value()) << forecast.error().message;
  const Evaluation found = Evaluator(model, *costs, AllPlanFields()).Evaluate(plan);
  return {found.step_s, forecast->simulation.step_s};
}

// Compares how much longer one step takes than another. The closed form adds the work at the end of
// a step up; in the simulation small reductions overlap with each other and with updates, and take
// a third of the time at best.
void ExpectCounted(const StepSeconds& with, const StepSeconds& without) {
  const double simulated = with.simulated - without.simulated;
  const double closed_form = with.closed_form - without.closed_form;
  EXPECT_GT(simulated, 0);
  EXPECT_GE(closed_form, 0.95 * simulated);
  EXPECT_LE(closed_form, 3 * simulated);
}

// Each of 8 ranks has one of 2 key/value heads, so four ranks share each; an all-reduce of their
// gradients ends the step. With 8 heads each rank has its own, and products have the same shape.
TEST(Evaluator, CountsSumsOfHeadsThatRanksShare) {
  ModelSpec model = Gpt2();
  model.heads = 16;
  model.hidden = 1024;
  model.ffn_hidden = 4096;
  ModelSpec own = model;
  model.kv_heads = 2;
  own.kv_heads = 8;
  Plan plan = OneMicroBatch();
  plan.global_batch = 1;
  plan.tp = 8;
  ExpectCounted(SecondsOf(model, plan), SecondsOf(own, plan));
  plan.sequence_parallel = true;
  ExpectCounted(SecondsOf(model, plan), SecondsOf(own, plan));
}

TEST(Evaluator, CountsRoutersLoadsAndTheLossScale) {
  ModelSpec model = Gpt2();
  model.experts = 8;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 768;
  model.router = RouterKind::kSigmoid;
  ModelSpec moved = model;
  moved.router_bias_rate = 0.001;
  Plan plan = OneMicroBatch();
  plan.dp = 8;
  plan.global_batch = 8;
  plan.ep = 8;
  ExpectCounted(SecondsOf(moved, plan), SecondsOf(model, plan));
  plan = OneMicroBatch();
  plan.global_batch = 1;
  plan.precision = Precision::kFp16;
  Plan scaled = plan;
  scaled.loss_scale = 1024;
  scaled.loss_scale_window = 100;
  ExpectCounted(SecondsOf(Gpt2(), scaled), SecondsOf(Gpt2(), plan));
}

// Compares the closed form of the fullest rank, which is the first, with the compiled program's
// need.
void ExpectNearTheProgram(const ModelSpec& model, const Plan& plan) {
  const ClusterSpec cluster = GpuCluster(2, 8);
  const auto costs = CostModel::Make(cluster, DeriveProfile(cluster));
  ASSERT_TRUE(costs.has_value());
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const auto linked = static_cast<double>(LinkedPeak(program->ranks.front()).total);
  const Evaluation found = Evaluator(model, *costs, AllPlanFields()).Evaluate(plan);
  EXPECT_EQ(found.fullest_pp, 0);
  const double closed = static_cast<double>(found.memory_bytes - found.memory.outside);
  EXPECT_GE(closed, linked * 0.9999) << Describe(plan);
  EXPECT_LE(closed, linked * 1.02) << Describe(plan);
}

// In a V the first rank has both ends of the model, whose token table is one tensor. Its whole
// gradient lives from the head's backward to the embedding's, for as many micro-batches as lie
// between.
TEST(Evaluator, CountsGradientsThatChunksOfARankShare) {
  ModelSpec model = Gpt2();
  model.tied_embeddings = true;
  Plan plan;
  plan.pp = plan.dp = 4;
  plan.zero_stage = 2;
  plan.schedule = ScheduleKind::kZbV;
  plan.sequence = 256;
  plan.micro_batch = 1;
  plan.global_batch = 64;
  plan.precision = Precision::kBf16;
  ExpectNearTheProgram(model, plan);
}

// With one stage too; each layer's whole gradient coexists with that of the table.
TEST(Evaluator, CountsGradientsOfATableBesideThoseOfALayer) {
  ModelSpec model = Gpt2();
  model.tied_embeddings = true;
  Plan plan;
  plan.dp = 8;
  plan.zero_stage = 2;
  plan.recompute = RecomputeKind::kFull;
  plan.sequence = 256;
  plan.micro_batch = 4;
  plan.global_batch = 32;
  plan.precision = Precision::kBf16;
  plan.schedule = ScheduleKind::kZbH1;
  ExpectNearTheProgram(model, plan);
}

// The next micro-batch's input waits for the second chunk while the first runs backward.
TEST(Evaluator, CountsWhatWaitsBetweenChunksOfOneStage) {
  Plan plan;
  plan.dp = 8;
  plan.schedule = ScheduleKind::kInterleaved;
  plan.vpp = 2;
  plan.recompute = RecomputeKind::kFull;
  plan.sequence = 1024;
  plan.micro_batch = 8;
  plan.global_batch = 256;
  plan.precision = Precision::kBf16;
  ExpectNearTheProgram(Gpt2(), plan);
}

// The parts add up to the step and to the memory.
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
