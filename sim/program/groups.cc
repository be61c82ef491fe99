#include "sim/program/groups.h"

#include <algorithm>

namespace foretrain {
namespace {

// All ranks whose coordinates lie between `first` and `last`, both included.
std::vector<int> Box(const Plan& plan, const RankCoordinates& first, const RankCoordinates& last) {
  std::vector<int> members;
  for (int pp = first.pp; pp <= last.pp; ++pp) {
    for (int dp = first.dp; dp <= last.dp; ++dp) {
      for (int tp = first.tp; tp <= last.tp; ++tp) members.push_back(RankOf(plan, {pp, dp, tp}));
    }
  }
  return members;
}

std::vector<int> Pair(int a, int b) { return {std::min(a, b), std::max(a, b)}; }

}  // namespace

int RankOf(const Plan& plan, const RankCoordinates& at) {
  return (at.pp * plan.dp + at.dp) * plan.tp + at.tp;
}

std::vector<int> GroupMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind) {
  const int last_pp = plan.pp - 1, last_dp = plan.dp - 1, last_tp = plan.tp - 1;
  // With several rounds of chunks the last stage's next is the first.
  const bool ring = plan.schedule == ScheduleKind::kInterleaved;
  const auto stage = [&](int pp) { return RankOf(plan, {pp, at.dp, at.tp}); };
  switch (kind) {
    case GroupKind::kNone:
      return {};
    case GroupKind::kTp:
      return Box(plan, {at.pp, at.dp, 0}, {at.pp, at.dp, last_tp});
    case GroupKind::kDp:
      return Box(plan, {at.pp, 0, at.tp}, {at.pp, last_dp, at.tp});
    case GroupKind::kDpPp:
      return Box(plan, {0, 0, at.tp}, {last_pp, last_dp, at.tp});
    case GroupKind::kTpPp:
      return Box(plan, {0, at.dp, 0}, {last_pp, at.dp, last_tp});
    case GroupKind::kWorld:
      return Box(plan, {0, 0, 0}, {last_pp, last_dp, last_tp});
    case GroupKind::kEnds:
      if (last_pp == 0 || (at.pp != 0 && at.pp != last_pp)) return {};
      return {stage(0), stage(last_pp)};
    case GroupKind::kNext:
      if (last_pp == 0 || (at.pp == last_pp && !ring)) return {};
      return Pair(stage(at.pp), stage(at.pp == last_pp ? 0 : at.pp + 1));
    case GroupKind::kPrev:
      if (last_pp == 0 || (at.pp == 0 && !ring)) return {};
      return Pair(stage(at.pp == 0 ? last_pp : at.pp - 1), stage(at.pp));
  }
  return {};
}

}  // namespace foretrain
