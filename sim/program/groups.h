// Which ranks stand in a group together. Leaves out what they exchange.
#pragma once

#include <vector>

#include "sim/program/op.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Place of a rank in the plan: rank = (pp * plan.dp + dp) * plan.tp + tp.
struct RankCoordinates {
  int pp = 0;
  int dp = 0;
  int tp = 0;
};
int RankOf(const Plan& plan, const RankCoordinates& at);

// Members of the group of this kind that the rank at `at` is in, ascending, which is the order of
// sums; empty where it is in none (no neighbour, not at an end of the pipeline).
std::vector<int> GroupMembers(const Plan& plan, const RankCoordinates& at, GroupKind kind);

}  // namespace foretrain
