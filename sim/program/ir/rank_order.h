// Maps ranks to devices: the order in which the degrees of a plan fill the devices of a cluster.
// Leaves out which devices are near each other (sim/cost/network/group_place.h).
#pragma once

#include <array>
#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/program/ir/groups.h"

namespace foretrain {

// The device of `rank` under Plan::rank_order, whose first degree runs over neighbouring devices
// and whose last runs over those farthest apart. A permutation of [0, plan.World()); the identity
// for tp-cp-ep-dp-pp.
//
// Expert parallelism takes its ranks from dp: the data-parallel ranks that one expert group spans
// are the degree "ep", the rest is "dp". If context (or, with whole experts, tensor) parallelism
// supplies all ranks of such a group, "ep" is 1.
//
//   rank, device  in [0, plan.World())
int DeviceOf(const Plan& plan, int rank);
int RankOnDevice(const Plan& plan, int device);

// Sizes of the degrees tp, cp, ep, dp and pp as rank orders count them; their product is the world.
std::array<int, kDegreeCount> DegreeSizes(const Plan& plan);

// DeviceOf each rank.
std::vector<int> DevicesOf(const Plan& plan, const std::vector<int>& ranks);

// Coordinates of the rank numbered `rank`.
RankCoordinates CoordinatesOf(const Plan& plan, int rank);

}  // namespace foretrain
