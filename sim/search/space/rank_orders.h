// Orders in which a plan's ranks may fill the devices of a cluster: the orders that differ in cost,
// and the one that probably takes least. Leaves out tori, on which a plan keeps its order.
#pragma once

#include <span>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"

namespace foretrain {

// One rank order for each way in which the degrees of `plan` can spread over link domains, nodes
// and network tiers. Any other order spreads them as one of these does, so it costs the same. The
// plan's own order comes first, the others follow in the order of their numbers. On a torus, and
// where one unit of linked devices holds all ranks, it is alone. O(orders * levels).
//
//   allowed  the orders to choose from; empty: all
std::vector<int> DistinctRankOrders(const ClusterSpec& cluster, const Plan& plan,
                                    std::span<const int> allowed = {});

// The distinct order with the least exposed communication, estimated from the degrees alone: dp,
// cp, tp, pp, ep and expert_tp, the batch and the sequence. `plan` need not be complete; a
// micro-batch of 0 counts as 1. The plan's own order is kept unless another saves a fifth of that
// communication. No order moves tensor parallelism off the links.
//
// Bytes of a step: two all-reduces of the hidden states a layer and direction (tp), keys and values
// three times a layer (cp), four exchanges of tokens a layer (ep), gradients once (dp), boundary
// tensors twice a micro-batch (pp). Each takes TimeOfCommunication on the levels that the order
// makes it cross. Gradients overlap the last backward, at half of the peak rate. A steady 1F1B
// waits for one transfer a micro-batch, or for both if the system's transfers block.
//
// This only decides which order a search tries first (docs/search.md); costs of a plan never read
// it. `allowed` as above. O(distinct orders).
int LikelyRankOrder(const ModelSpec& model, const CostModel& costs, const Plan& plan,
                    std::span<const int> allowed = {});

}  // namespace foretrain
