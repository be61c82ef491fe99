#include "sim/search/space/rank_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/forecast/forecast.h"
#include "sim/search/advice/better_order.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

class RankOrders : public testing::Test {
 protected:
  void SetUp() override {
    auto catalogue = BuiltInCatalogue();
    ASSERT_TRUE(catalogue.has_value());
    catalogue_ = *std::move(catalogue);
  }
  ClusterSpec ClusterOf(const std::string& text) const {
    const auto cluster = ParseCluster(text, catalogue_);
    EXPECT_TRUE(cluster.has_value());
    return *cluster;
  }
  ModelSpec ModelOf(const std::string& name) const {
    const auto model = ResolveModel(name, "test", catalogue_);
    EXPECT_TRUE(model.has_value());
    return model->model;
  }
  static CostModel CostsOf(const ClusterSpec& cluster) {
    auto costs = CostModel::Make(cluster, DeriveProfile(cluster));
    EXPECT_TRUE(costs.has_value());
    return *std::move(costs);
  }
  std::vector<std::string> NamesOf(const std::string& cluster, const Plan& plan) const {
    std::vector<std::string> names;
    for (const int order : DistinctRankOrders(ClusterOf(cluster), plan)) {
      names.emplace_back(NameOfRankOrder(order));
    }
    return names;
  }

  Catalogue catalogue_;
};

// Nodes of 8 hold (tp, dp, pp) = (2, 2, 2) members of each degree if pp is last, (2, 1, 4) if dp is
// last and (1, 2, 4) if tp is. Which of the other two comes first changes nothing.
TEST_F(RankOrders, DifferInWhatANodeHolds) {
  Plan plan;
  plan.tp = 2;
  plan.dp = 2;
  plan.pp = 4;
  EXPECT_THAT(NamesOf("2x8xh100", plan),
              ElementsAre("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "cp-ep-dp-pp-tp"));
}

TEST_F(RankOrders, AreOneWhereANodeHoldsAllRanksOrATorusDoes) {
  Plan plan;
  plan.tp = 2;
  plan.dp = 4;
  EXPECT_THAT(NamesOf("1x8xh100", plan), ElementsAre("tp-cp-ep-dp-pp"));
  ClusterSpec torus = ClusterOf("2x8xh100");
  torus.torus = {4, 4};
  plan.pp = 2;
  EXPECT_THAT(DistinctRankOrders(torus, plan), ElementsAre(0));
}

TEST_F(RankOrders, KeepThePlansOwnFirst) {
  Plan plan;
  plan.tp = 2;
  plan.dp = 2;
  plan.pp = 4;
  plan.rank_order = kRankOrderCount - 1;  // pp-dp-ep-cp-tp: as (1, 2, 4) above
  EXPECT_THAT(NamesOf("2x8xh100", plan),
              ElementsAre("pp-dp-ep-cp-tp", "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"));
}

// 256 = 4 x 64 and 2,496 = 39 x 64 leave 8 GPUs of each rack of 72 idle; 80 = 2 x 40. Equal shares
// of 100 GPUs in whole nodes of 4 would be 20 on five racks, where two hold them.
TEST_F(RankOrders, SpreadOverRacksInEqualShares) {
  EXPECT_EQ(EvenShareOfDomain(256, 72, 4), 64);
  EXPECT_EQ(EvenShareOfDomain(2496, 72, 4), 64);
  EXPECT_EQ(EvenShareOfDomain(144, 72, 4), 72);
  EXPECT_EQ(EvenShareOfDomain(80, 72, 4), 40);
  EXPECT_EQ(EvenShareOfDomain(100, 72, 4), 72);
  EXPECT_EQ(ClusterOf("64x4xgb200").DevicesPerUnit(), 64);
  EXPECT_EQ(ClusterOf("36x4xgb200").DevicesPerUnit(), 72);
}

// Tables of the evaluator are keyed by the places of groups, not by the order itself.
TEST_F(RankOrders, CostTheSameWithSharedTables) {
  const ClusterSpec cluster = ClusterOf("4x8xh100");
  const CostModel costs = CostsOf(cluster);
  const ModelSpec model = ModelOf("mixtral-8x7b");
  Plan plan;
  plan.tp = 2;
  plan.cp = 2;
  plan.pp = 2;
  plan.dp = 4;
  plan.ep = 4;
  plan.zero_stage = 1;
  plan.sequence = 1024;
  plan.micro_batch = 1;
  plan.global_batch = 32;
  plan.precision = Precision::kBf16;
  ASSERT_TRUE(ValidatePlan(plan, model).has_value());
  Evaluator shared(model, costs, AllPlanFields());
  std::set<double> different;
  for (int order = 0; order < kRankOrderCount; order += 7) {
    plan.rank_order = order;
    const Evaluation alone = Evaluator(model, costs, AllPlanFields()).Evaluate(plan);
    const Evaluation with = shared.Evaluate(plan);
    EXPECT_EQ(with.step_s, alone.step_s) << NameOfRankOrder(order);
    EXPECT_EQ(with.bound_s, alone.bound_s) << NameOfRankOrder(order);
    EXPECT_EQ(with.memory_bytes, alone.memory_bytes) << NameOfRankOrder(order);
    different.insert(alone.step_s);
  }
  EXPECT_GT(different.size(), 2U);
}

// A layer a stage, and a network of 1 GB/s. Each of 128 micro-batches passes 1.6 MB between stages
// in either direction, 400 MB in all, and a stage's gradients are 30 MB. The default order puts
// stages 2 and 3 on different nodes; the other order gradients.
TEST_F(RankOrders, AreFoundByTheSearchAndSimulatedFaster) {
  ClusterSpec cluster = ClusterOf("2x8xh100");
  cluster.network_bytes_per_s = 1e9;
  const CostModel costs = CostsOf(cluster);
  ModelSpec model = ModelOf("gpt2-124m");
  model.layers = 4;
  model.vocab = 1024;
  Plan base;
  base.sequence = 1024;
  base.global_batch = 512;
  base.precision = Precision::kBf16;
  SearchSpace space = DefaultSpace(model, cluster, 16, base);
  for (const auto& [field, value] : std::map<std::string, std::int64_t>{{"tp", 1},
                                                                        {"cp", 1},
                                                                        {"dp", 4},
                                                                        {"pp", 4},
                                                                        {"micro_batch", 1},
                                                                        {"zero_stage", 0},
                                                                        {"recompute", 0}}) {
    space.Choose(field, {value});
  }
  space.Choose("schedule", {static_cast<std::int64_t>(ScheduleKind::k1f1b)});
  SearchOptions options;
  options.ranks = 16;
  const auto found = SearchPlans(model, costs, space, options);
  ASSERT_TRUE(found.has_value()) << found.error().message;
  const RankedPlan& best = found->plans.front();
  EXPECT_EQ(NameOfRankOrder(best.plan.rank_order), "tp-cp-ep-pp-dp");
  Plan as_usual = best.plan;
  as_usual.rank_order = 0;
  const auto forecast = MakeForecast(model, as_usual, costs, {.ranks = RankChoice::kFirst});
  ASSERT_TRUE(forecast.has_value()) << forecast.error().message;
  EXPECT_LT(best.step_s, 0.9 * forecast->simulation.step_s);

  const RankOrderChoice choice = FastestRankOrder(model, costs, as_usual);
  EXPECT_EQ(choice.plan.rank_order, best.plan.rank_order);
  EXPECT_LT(choice.step_s, choice.given_step_s * (1 - kBetterOrder));

  space.orders_ranks = false;
  const auto fixed = SearchPlans(model, costs, space, options);
  ASSERT_TRUE(fixed.has_value()) << fixed.error().message;
  EXPECT_EQ(fixed->plans.front().plan.rank_order, 0);
  EXPECT_GT(fixed->plans.front().step_s, best.step_s);
}

// One of the two orders alone differs without a pipeline.
TEST_F(RankOrders, AreAmongThoseThatAreAllowed) {
  const std::vector<int> allowed = {0, 1};
  Plan plan;
  plan.tp = 4;
  plan.dp = 8;
  EXPECT_THAT(DistinctRankOrders(ClusterOf("4x8xh100"), plan, allowed), ElementsAre(0));
  plan.dp = plan.pp = 4;
  const std::vector<int> orders = DistinctRankOrders(ClusterOf("8x8xh100"), plan, allowed);
  EXPECT_GT(DistinctRankOrders(ClusterOf("8x8xh100"), plan).size(), orders.size());
  EXPECT_THAT(allowed, testing::IsSupersetOf(orders));
}

}  // namespace
}  // namespace foretrain
