#include "sim/program/groups.h"

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

}  // namespace

int RankOf(const Plan& plan, const RankCoordinates& at) {
  return (at.pp * plan.dp + at.dp) * plan.tp + at.tp;
}

std::vector<int> GroupMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind) {
  const int last_pp = plan.pp - 1, last_dp = plan.dp - 1, last_tp = plan.tp - 1;
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
      if (at.pp == last_pp) return {};
      return {stage(at.pp), stage(at.pp + 1)};
    case GroupKind::kPrev:
      if (at.pp == 0) return {};
      return {stage(at.pp - 1), stage(at.pp)};
  }
  return {};
}

}  // namespace foretrain
