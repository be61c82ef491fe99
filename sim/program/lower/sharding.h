// Which parts of the model's state the data-parallel ranks share out. Every pass asks this, none
// asks for a ZeRO stage.
#pragma once

#include "sim/spec/plan.h"

namespace foretrain {

// Each flag is off where one rank would hold everything anyhow. Rajbhandari et al. 2020, s. 5.
struct Sharding {
  int shards = 1;           // ranks that share a bucket; 1: nothing is sharded
  bool optimizer = false;   // each rank keeps the moments of its shard, and updates it alone
  bool gradients = false;   // what micro-batches add up to lies in shards
  bool parameters = false;  // gathered for each use
  // Gradients are whole for one micro-batch, and then summed or taken off the device.
  bool each_micro_batch = false;
};

// What micro-batches add up to lies off the device.
inline bool GradientsAreAway(const Plan& plan) {
  return plan.offload_gradients != OffloadTarget::kNone;
}

inline Sharding ShardingOf(const Plan& plan) {
  Sharding sharding;
  if (plan.Shards() > 1 && plan.zero_stage > 0) {
    sharding = {plan.Shards(), true, plan.zero_stage >= 2 || GradientsAreAway(plan),
                plan.zero_stage >= 3};
  }
  sharding.each_micro_batch =
      sharding.gradients || GradientsAreAway(plan) ||
      (plan.DataParallel() > 1 && plan.reduction_time == ReductionTime::kMicroBatch);
  return sharding;
}

// Replicas of each shard sum it once a step, when it holds all micro-batches (HSDP).
inline bool SumsReplicas(const Plan& plan) {
  return plan.replicas > 1 && ShardingOf(plan).optimizer;
}

}  // namespace foretrain
