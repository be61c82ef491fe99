// Plans of catalogue models on clusters of the catalogue, as one would search over them: for
// property tests of forecasts.
#pragma once

#include <cstdint>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct RealisticPlan {
  ModelSpec model;
  ClusterSpec cluster;
  Plan plan;  // valid for the model, on all devices of the cluster
};

// The `index`-th of a fixed sequence: models of 125 M to 13 B parameters (dense and of experts), 8
// to 64 GPUs, every schedule whose steps do not overlap, ZeRO stage, recomputation and split. Few
// enough micro-batches that a simulation takes well under a second. What does not fit is left in.
RealisticPlan RealisticPlanOf(std::uint64_t index);

}  // namespace foretrain
