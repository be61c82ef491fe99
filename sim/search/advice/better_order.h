// Finds the rank order that suits a plan and a cluster best.
#pragma once

#include <cstdint>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"

namespace foretrain {

struct RankOrderChoice {
  Plan plan;                // the given plan with the fastest order
  double step_s = 0;        // seconds of its step, in closed form
  double given_step_s = 0;  // the same with the given order
  std::int64_t bytes = 0;   // bytes that it needs on a device
};

// Minimum relative gain of a rank order that is worth a suggestion: twice the median error of the
// closed form, and more than most orders differ by.
inline constexpr double kBetterOrder = 0.02;

// True if a plan that states no rank order gets the fastest one instead of tp-cp-ep-dp-pp: links
// join more devices than the 8 of a usual node, so other degrees than tp find room on them.
bool OrdersRanks(const ClusterSpec& cluster);

// Compares every distinct order (space/rank_orders.h) of a valid plan in closed form. The given
// order wins ties. O(distinct orders) evaluations.
RankOrderChoice FastestRankOrder(const ModelSpec& model, const CostModel& costs, const Plan& plan);

}  // namespace foretrain
