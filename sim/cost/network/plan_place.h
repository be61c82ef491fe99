// Positions of a plan's groups on a cluster. communication_cost.h gives the costs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/cost/network/fabric.h"
#include "sim/cost/network/group_place.h"
#include "sim/program/ir/groups.h"

namespace foretrain {

// Position of the group of `kind` of the rank at `at`, with the ranks `members`. For pipeline
// neighbours on two nodes it includes the number of concurrent senders of the node. O(members log
// members + devices of a node).
GroupPlace PlaceOfGroup(const ClusterSpec& cluster, const Plan& plan, const RankCoordinates& at,
                        GroupKind kind, const std::vector<int>& members);

// Level over which one degree of a plan communicates.
struct DegreePlace {
  std::string_view degree;  // "tp", "cp", "ep", "dp", "pp"
  int ranks = 1;
  GroupPlace place;
  // "links", "PCIe", "network", "network beyond 32 nodes", "torus"; empty for one rank.
  std::string tier;
  double bytes_per_s = 0;  // sustained rate of a device on that tier
};

// Each degree above 1, in the plan's rank order, for the first rank's groups.
std::vector<DegreePlace> PlacesOf(const ClusterSpec& cluster, const Fabric& fabric,
                                  const Plan& plan);

// "tp 8 on links, dp 4 on network (8 a node)".
std::string Describe(const std::vector<DegreePlace>& places);

}  // namespace foretrain
