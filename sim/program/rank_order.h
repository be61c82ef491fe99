// Which device a rank runs on: the order in which the degrees of a plan fill the devices of a
// cluster. Leaves out what devices are near to each other (sim/cost/group_place.h).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/program/groups.h"
#include "sim/spec/plan.h"

namespace foretrain {

// The device of `rank` under Plan::rank_order, whose first degree runs over neighbouring devices
// and whose last over those farthest apart: a permutation of [0, plan.World()), the identity for
// tp-cp-ep-dp-pp.
//
// Expert parallelism takes its ranks from dp: those of dp that one group of experts spans are the
// degree "ep", the rest is "dp". Where context (or, with whole experts, tensor) parallelism has
// all ranks of such a group, "ep" is 1.
//
//   rank, device  in [0, plan.World())
int DeviceOf(const Plan& plan, int rank);
int RankOnDevice(const Plan& plan, int device);

// DeviceOf of each.
std::vector<int> DevicesOf(const Plan& plan, const std::vector<int>& ranks);

// Place in the plan of the rank numbered `rank`.
RankCoordinates CoordinatesOf(const Plan& plan, int rank);

}  // namespace foretrain
