#include "sim/program/ir/groups.h"

#include <algorithm>

namespace foretrain {
namespace {

// All ranks whose coordinates lie between `first` and `last`, both included.
std::vector<int> Box(const Plan& plan, const RankCoordinates& first, const RankCoordinates& last) {
  std::vector<int> members;
  members.reserve(static_cast<std::size_t>(last.pp - first.pp + 1) *
                  static_cast<std::size_t>(last.dp - first.dp + 1) *
                  static_cast<std::size_t>(last.cp - first.cp + 1) *
                  static_cast<std::size_t>(last.tp - first.tp + 1));
  for (int pp = first.pp; pp <= last.pp; ++pp) {
    for (int dp = first.dp; dp <= last.dp; ++dp) {
      for (int cp = first.cp; cp <= last.cp; ++cp) {
        for (int tp = first.tp; tp <= last.tp; ++tp) {
          members.push_back(RankOf(plan, {pp, dp, cp, tp}));
        }
      }
    }
  }
  return members;
}

std::vector<int> Pair(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

// Pipeline ranks that hold the stages of rank `pp`, ascending: two for DualPipe, otherwise `pp`
// alone.
std::vector<int> Holders(const Plan& plan, int pp) {
  if (plan.StageCopies() == 1) return {pp};
  return Pair(pp, plan.pp - 1 - pp);
}

// Ranks that hold the same parameters: dp x cp on each pipeline rank that holds them.
std::vector<int> DataParallelMembers(const Plan& plan, const RankCoordinates& at) {
  std::vector<int> members;
  for (const int pp : Holders(plan, at.pp)) {
    const std::vector<int> more =
        Box(plan, {pp, 0, 0, at.tp}, {pp, plan.dp - 1, plan.cp - 1, at.tp});
    members.insert(members.end(), more.begin(), more.end());
  }
  return members;
}

// Index of rank `pp` in Holders.
int HolderOf(const Plan& plan, int pp) {
  return plan.StageCopies() > 1 && pp > plan.pp - 1 - pp ? 1 : 0;
}

// Shard groups are consecutive runs of the data-parallel members, so that the members of one are
// near each other.
std::vector<int> ShardMembers(const Plan& plan, const RankCoordinates& at) {
  const std::vector<int> all = DataParallelMembers(plan, at);
  const int first = DataPlaceOf(plan, at).replica * plan.Shards();
  return {all.begin() + first, all.begin() + first + plan.Shards()};
}

std::vector<int> ReplicaMembers(const Plan& plan, const RankCoordinates& at) {
  const std::vector<int> all = DataParallelMembers(plan, at);
  const DataPlace place = DataPlaceOf(plan, at);
  std::vector<int> members;
  for (int replica = 0; replica < plan.replicas; ++replica) {
    members.push_back(all[static_cast<std::size_t>(replica * plan.Shards() + place.shard)]);
  }
  return members;
}

// The rank of stage `pp` with this expert index. `tp` counts only if the index does not include it.
int RankOfExpertIndex(const Plan& plan, int pp, int index, int tp) {
  if (plan.ExpertsSpanTp()) {
    tp = index % plan.tp;
    index /= plan.tp;
  }
  return RankOf(plan, {pp, index / plan.cp, index % plan.cp, tp});
}

// kEp is a run of ep consecutive expert indices; kExpertDp takes every ep-th one, on all pipeline
// ranks that hold the stage.
std::vector<int> ExpertMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind) {
  const int own = ExpertIndexOf(plan, at);
  const bool dispatch = kind == GroupKind::kEp;
  const int first = dispatch ? own / plan.ep * plan.ep : own % plan.ep;
  const int last = dispatch ? first + plan.ep : plan.ExpertRanks();
  std::vector<int> members;
  for (const int pp : dispatch ? std::vector<int>{at.pp} : Holders(plan, at.pp)) {
    for (int index = first; index < last; index += dispatch ? 1 : plan.ep) {
      members.push_back(RankOfExpertIndex(plan, pp, index, at.tp));
    }
  }
  return members;
}

// Members of kEnds, kNext and kPrev.
std::vector<int> PipelineMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind) {
  const int last = plan.pp - 1;
  if (last == 0) return {};
  // With several chunks per rank, the last stage's next is the first.
  const bool ring = plan.Shape() == StageShape::kRounds;
  const auto stage = [&](int pp) { return RankOf(plan, {pp, at.dp, at.cp, at.tp}); };
  if (kind == GroupKind::kEnds) {
    if (at.pp != 0 && at.pp != last) return {};
    return {stage(0), stage(last)};
  }
  if (kind == GroupKind::kNext) {
    if (at.pp == last && !ring) return {};
    return Pair(stage(at.pp), stage(at.pp == last ? 0 : at.pp + 1));
  }
  if (at.pp == 0 && !ring) return {};
  return Pair(stage(at.pp == 0 ? last : at.pp - 1), stage(at.pp));
}

}  // namespace

int ExpertIndexOf(const Plan& plan, const RankCoordinates& at) {
  const int e = at.dp * plan.cp + at.cp;
  return plan.ExpertsSpanTp() ? e * plan.tp + at.tp : e;
}

int ExpertPlaceOf(const Plan& plan, const RankCoordinates& at) {
  return HolderOf(plan, at.pp) * (plan.ExpertRanks() / plan.ep) + ExpertIndexOf(plan, at) / plan.ep;
}

int RankOf(const Plan& plan, const RankCoordinates& at) {
  return ((at.pp * plan.dp + at.dp) * plan.cp + at.cp) * plan.tp + at.tp;
}

std::vector<RankCoordinates> RanksOfStage(const Plan& plan, int pp) {
  std::vector<RankCoordinates> ranks;
  ranks.reserve(static_cast<std::size_t>(plan.World() / plan.pp));
  for (int dp = 0; dp < plan.dp; ++dp) {
    for (int cp = 0; cp < plan.cp; ++cp) {
      for (int tp = 0; tp < plan.tp; ++tp) ranks.push_back({pp, dp, cp, tp});
    }
  }
  return ranks;
}

DataPlace DataPlaceOf(const Plan& plan, const RankCoordinates& at) {
  const int place = (HolderOf(plan, at.pp) * plan.dp + at.dp) * plan.cp + at.cp;
  return {place % plan.Shards(), place / plan.Shards()};
}

// Most groups are boxes of coordinates; the others are built from the data-parallel members or from
// expert indices.
std::vector<int> GroupMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind,
                              std::int64_t kv_heads) {
  const int last_pp = plan.pp - 1, last_dp = plan.dp - 1, last_cp = plan.cp - 1;
  const int last_tp = plan.tp - 1;
  switch (kind) {
    case GroupKind::kNone:
      return {};
    case GroupKind::kTp:
      return Box(plan, {at.pp, at.dp, at.cp, 0}, {at.pp, at.dp, at.cp, last_tp});
    case GroupKind::kKvCopies: {
      if (kv_heads == 0 || kv_heads >= plan.tp) return {};
      const int copies = plan.tp / static_cast<int>(kv_heads);
      const int first = at.tp / copies * copies;
      return Box(plan, {at.pp, at.dp, at.cp, first}, {at.pp, at.dp, at.cp, first + copies - 1});
    }
    case GroupKind::kCp:
      return Box(plan, {at.pp, at.dp, 0, at.tp}, {at.pp, at.dp, last_cp, at.tp});
    case GroupKind::kDp:
      return DataParallelMembers(plan, at);
    case GroupKind::kShard:
      return ShardMembers(plan, at);
    case GroupKind::kReplica:
      return ReplicaMembers(plan, at);
    case GroupKind::kEp:
    case GroupKind::kExpertDp:
      return ExpertMembers(plan, at, kind);
    case GroupKind::kDpPp:
      return Box(plan, {0, 0, 0, at.tp}, {last_pp, last_dp, last_cp, at.tp});
    case GroupKind::kTpPp:
      return Box(plan, {0, at.dp, at.cp, 0}, {last_pp, at.dp, at.cp, last_tp});
    case GroupKind::kWorld:
      return Box(plan, {0, 0, 0, 0}, {last_pp, last_dp, last_cp, last_tp});
    case GroupKind::kEnds:
    case GroupKind::kNext:
    case GroupKind::kPrev:
      return PipelineMembers(plan, at, kind);
  }
  return {};
}

}  // namespace foretrain
