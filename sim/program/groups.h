// Which ranks stand in a group together. Leaves out what they exchange.
#pragma once

#include <vector>

#include "sim/program/op.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Place of a rank in the plan: rank = ((pp * plan.dp + dp) * plan.cp + cp) * plan.tp + tp.
struct RankCoordinates {
  int pp = 0;
  int dp = 0;
  int cp = 0;
  int tp = 0;

  // The rank that stands for all of its pipeline stage where others are left out.
  bool FirstOfStage() const { return dp == 0 && cp == 0 && tp == 0; }
  bool operator==(const RankCoordinates&) const = default;
};
int RankOf(const Plan& plan, const RankCoordinates& at);
// All ranks of pipeline stage `pp`, ascending.
std::vector<RankCoordinates> RanksOfStage(const Plan& plan, int pp);

// Members of the group of this kind that the rank at `at` is in, ascending, which is the order of
// sums; empty where it is in none (no neighbour, not at an end of the pipeline).
//
//   kKvCopies  of kTp, ranks that follow each other and have the same of `kv_heads` heads: none
//   where
//              there are as many heads or more
//   kShard    of kDp, ranks that follow each other and hold all shards between them (ZeRO)
//   kReplica  of kDp, those that hold this rank's shard: one of each kShard (HSDP)
//   kEp       e / ep is equal, and kExpertDp: e % ep is, where e = dp * plan.cp + cp counts the
//             ranks of a stage; with expert_tp 1, e * plan.tp + tp does, so that tensor-parallel
//             ranks hold experts of their own
//
// DualPipe keeps each stage on ranks pp and plan.pp - 1 - pp: kDp, what divides it, and kExpertDp
// join the two.
std::vector<int> GroupMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind,
                              std::int64_t kv_heads = 0);

// Place of the rank among those that hold the same parameters: `shard` in its kShard group,
// `replica` in its kReplica group.
struct DataPlace {
  int shard = 0;    // [0, plan.Shards())
  int replica = 0;  // [0, plan.replicas)
};
DataPlace DataPlaceOf(const Plan& plan, const RankCoordinates& at);

// Number of the rank among those of its stage that experts are dealt to, and its place in its
// kExpertDp group, those that hold the same.
int ExpertIndexOf(const Plan& plan, const RankCoordinates& at);
int ExpertPlaceOf(const Plan& plan, const RankCoordinates& at);

}  // namespace foretrain
