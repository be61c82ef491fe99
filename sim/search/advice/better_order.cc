#include "sim/search/advice/better_order.h"

#include "sim/search/evaluate/evaluator.h"
#include "sim/search/space/rank_orders.h"

namespace foretrain {

bool OrdersRanks(const ClusterSpec& cluster) {
  constexpr int kUsualNode = 8;
  return !cluster.is_cpu && cluster.torus.empty() && cluster.DevicesPerUnit() > kUsualNode;
}

RankOrderChoice FastestRankOrder(const ModelSpec& model, const CostModel& costs, const Plan& plan) {
  RankOrderChoice out{plan, 0, 0, 0};
  const std::vector<int> orders = DistinctRankOrders(costs.cluster(), plan);
  Evaluator evaluator(model, costs, AllPlanFields());
  for (const int order : orders) {
    Plan other = plan;
    other.rank_order = order;
    const Evaluation estimate = evaluator.Evaluate(other);
    if (order == plan.rank_order) out.given_step_s = estimate.step_s;
    if (order != plan.rank_order && estimate.step_s >= out.step_s) continue;
    out.plan = std::move(other);
    out.step_s = estimate.step_s;
    out.bytes = estimate.memory_bytes;
  }
  return out;
}

}  // namespace foretrain
