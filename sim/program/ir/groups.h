// Lists the ranks of each communication group. Leaves out what they exchange.
#pragma once

#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Coordinates of a rank in the plan: rank = ((pp * plan.dp + dp) * plan.cp + cp) * plan.tp + tp.
struct RankCoordinates {
  int pp = 0;
  int dp = 0;
  int cp = 0;
  int tp = 0;

  // The rank that represents its pipeline stage if the others are left out.
  bool FirstOfStage() const { return dp == 0 && cp == 0 && tp == 0; }
  bool operator==(const RankCoordinates&) const = default;
};
int RankOf(const Plan& plan, const RankCoordinates& at);
// All ranks of pipeline stage `pp`, ascending.
std::vector<RankCoordinates> RanksOfStage(const Plan& plan, int pp);

// Members of the group of this kind that contains the rank at `at`, ascending, which is also the
// order of summation. Empty if there is none (no neighbour, not at an end of the pipeline).
//
//   kKvCopies  part of kTp: consecutive ranks that hold the same of `kv_heads` heads; none if
//              there are at least as many heads as ranks
//   kShard     part of kDp: consecutive ranks that hold all shards between them (ZeRO)
//   kReplica   part of kDp: the ranks that hold this rank's shard, one of each kShard (HSDP)
//   kEp        ranks with equal e / ep, and kExpertDp: with equal e % ep, for
//              e = dp * plan.cp + cp, the index within a stage. With expert_tp 1,
//              e * plan.tp + tp replaces e, and tensor-parallel ranks hold different experts.
//
// DualPipe keeps each stage on ranks pp and plan.pp - 1 - pp. There kDp, its parts and kExpertDp
// join the two.
std::vector<int> GroupMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind,
                              std::int64_t kv_heads = 0);

// Position of a rank among those that hold the same parameters: `shard` in its kShard group,
// `replica` in its kReplica group.
struct DataPlace {
  int shard = 0;    // [0, plan.Shards())
  int replica = 0;  // [0, plan.replicas)
};
DataPlace DataPlaceOf(const Plan& plan, const RankCoordinates& at);

// ExpertIndexOf: index of the rank among those of its stage that experts are distributed over.
// ExpertPlaceOf: its index in its kExpertDp group, whose members hold the same experts.
int ExpertIndexOf(const Plan& plan, const RankCoordinates& at);
int ExpertPlaceOf(const Plan& plan, const RankCoordinates& at);

}  // namespace foretrain
