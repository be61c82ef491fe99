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
  bool gradients = false;   // whole for one micro-batch at a time, then scattered to the shards
  bool parameters = false;  // gathered for each use
};

// Ranks that hold and sum a bucket's gradients, those that share out its state, and how many these
// are: of experts that are dealt out, the ones that hold the same.
inline GroupKind SumGroup(const Bucket& bucket) {
  return bucket.experts ? GroupKind::kExpertDp : GroupKind::kDp;
}
inline GroupKind ShardGroup(const Bucket& bucket) {
  return bucket.experts ? GroupKind::kExpertDp : GroupKind::kShard;
}
inline int ExpertHolders(const Plan& plan) { return plan.DataParallel() / plan.ep; }

inline Sharding ShardingOf(const Plan& plan) {
  if (plan.Shards() == 1 || plan.zero_stage == 0) return {};
  return {plan.Shards(), true, plan.zero_stage >= 2, plan.zero_stage >= 3};
}

}  // namespace foretrain
