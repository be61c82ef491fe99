// Tells which parts of the model's state are sharded over data-parallel ranks. Lowerings ask this
// and never the ZeRO stage.
#pragma once

#include "sim/config/plan/plan.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// A flag is false if one rank would hold everything anyway. Rajbhandari et al. 2020, s. 5.
struct Sharding {
  int shards = 1;           // ranks that share a bucket; 1: nothing is sharded
  bool optimizer = false;   // each rank keeps the moments of its shard, and updates it alone
  bool gradients = false;   // accumulated gradients are shards
  bool parameters = false;  // gathered for each use
  // Whole gradients exist for one micro-batch; then they are reduced or leave the device.
  bool each_micro_batch = false;
};

// True if accumulated gradients are offloaded.
inline bool GradientsAreOffloaded(const Plan& plan) {
  return plan.offload_gradients != OffloadTarget::kNone;
}

// Group that reduces a bucket's gradients, group that shards its state, and the number of its
// holders. Experts have their own group: the ranks that hold the same ones (Plan::ExpertHolders).
inline GroupKind SumGroup(const Bucket& bucket) {
  return bucket.experts ? GroupKind::kExpertDp : GroupKind::kDp;
}
inline GroupKind ShardGroup(const Bucket& bucket) {
  return bucket.experts ? GroupKind::kExpertDp : GroupKind::kShard;
}
inline int Holders(const Plan& plan, const Bucket& bucket) {
  return bucket.experts ? plan.ExpertHolders() : plan.DataParallel();
}
// True if no other rank has this rank's experts: they are neither reduced nor sharded.
inline bool HoldsExpertsAlone(const Plan& plan) {
  return plan.DealsExperts() && plan.ExpertHolders() == 1;
}
inline bool IsHeldOnce(const Plan& plan, const Bucket& bucket) {
  return Holders(plan, bucket) == 1;
}

inline Sharding ShardingOf(const Plan& plan) {
  Sharding sharding;
  if (plan.Shards() > 1 && plan.zero_stage > 0) {
    sharding = {plan.Shards(), true, plan.zero_stage >= 2 || GradientsAreOffloaded(plan),
                plan.zero_stage >= 3};
  }
  sharding.each_micro_batch =
      sharding.gradients || GradientsAreOffloaded(plan) ||
      (plan.DataParallel() > 1 && plan.reduction_time == ReductionTime::kMicroBatch);
  return sharding;
}

// True if a bucket has whole gradients per micro-batch; false if all micro-batches add to one
// buffer.
inline bool IsWholeForOne(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).each_micro_batch &&
         (GradientsAreOffloaded(plan) || !IsHeldOnce(plan, bucket));
}
// True if the bucket's gradients are reduce-scattered.
inline bool IsScattered(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).optimizer && !IsHeldOnce(plan, bucket);
}

// True if this rank holds only a shard of the bucket's parameters. They are gathered for each use,
// unless no other rank holds any.
inline bool ShardsParameters(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).parameters && !bucket.unsharded;
}
inline bool GathersParameters(const Plan& plan, const Bucket& bucket) {
  return ShardsParameters(plan, bucket) && !IsHeldOnce(plan, bucket);
}

// True if each rank updates a shard of parameters that all of them hold whole.
inline bool SharesUpdate(const Plan& plan, const Bucket& bucket) {
  return ShardingOf(plan).optimizer && bucket.shards > 1 && !ShardsParameters(plan, bucket);
}

// HSDP: replicas of a shard reduce it once per step, when it holds all micro-batches.
inline bool SumsReplicas(const Plan& plan) {
  return plan.replicas > 1 && ShardingOf(plan).optimizer;
}

}  // namespace foretrain
