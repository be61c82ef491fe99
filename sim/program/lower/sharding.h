// Which parts of the model's state the data-parallel ranks share out. Every pass asks this, none
// asks for a ZeRO stage.
#pragma once

#include "sim/program/program.h"
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

// Ranks that hold and sum a bucket's gradients, those that share out its state, and how many these
// are: of experts that are dealt out, the ones that hold the same (Plan::ExpertHolders).
inline GroupKind SumGroup(const Bucket& bucket) {
  return bucket.experts ? GroupKind::kExpertDp : GroupKind::kDp;
}
inline GroupKind ShardGroup(const Bucket& bucket) {
  return bucket.experts ? GroupKind::kExpertDp : GroupKind::kShard;
}
inline int Holders(const Plan& plan, const Bucket& bucket) {
  return bucket.experts ? plan.ExpertHolders() : plan.DataParallel();
}
// Nobody else has this rank's experts: they are neither summed nor shared out.
inline bool HoldsExpertsAlone(const Plan& plan) {
  return plan.DealsExperts() && plan.ExpertHolders() == 1;
}
inline bool IsHeldOnce(const Plan& plan, const Bucket& bucket) {
  return Holders(plan, bucket) == 1;
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

// A bucket's gradients are whole for one micro-batch; else all add to one buffer.
inline bool IsWholeForOne(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).each_micro_batch && (GradientsAreAway(plan) || !IsHeldOnce(plan, bucket));
}
// They are summed to shards.
inline bool IsScattered(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).optimizer && !IsHeldOnce(plan, bucket);
}

// Whether this rank has a shard of the bucket's parameters, which are gathered for each use unless
// nobody else has any.
inline bool ShardsParameters(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).parameters && !bucket.unsharded;
}
inline bool GathersParameters(const Plan& plan, const Bucket& bucket) {
  return ShardsParameters(plan, bucket) && !IsHeldOnce(plan, bucket);
}

// Whether each rank updates a shard of parameters that are whole on all of them.
inline bool SharesUpdate(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).optimizer && bucket.shards > 1 && !ShardsParameters(plan, bucket);
}

// Replicas of each shard sum it once a step, when it holds all micro-batches (HSDP).
inline bool SumsReplicas(const Plan& plan) {
  return plan.replicas > 1 && ShardingOf(plan).optimizer;
}

}  // namespace foretrain
