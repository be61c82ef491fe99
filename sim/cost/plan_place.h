// Where the groups of a plan lie on a cluster. Leaves out costs (communication_cost.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/fabric.h"
#include "sim/cost/group_place.h"
#include "sim/program/groups.h"
#include "sim/spec/plan.h"

namespace foretrain {

// The place of the group of `kind` of the rank at `at`, whose ranks are `members`. Of neighbours in
// the pipeline that lie on two nodes also how many of the node send to another one at once.
// O(members log members + devices of a node).
GroupPlace PlaceOfGroup(const ClusterSpec& cluster, const Plan& plan, const RankCoordinates& at,
                        GroupKind kind, const std::vector<int>& members);

// Over what one degree of a plan exchanges.
struct DegreePlace {
  std::string_view degree;  // "tp", "cp", "ep", "dp", "pp"
  int ranks = 1;
  GroupPlace place;
  std::string tier;        // "links", "PCIe", "network", "network beyond 32 nodes", "torus"; empty
                           // for one rank
  double bytes_per_s = 0;  // of a device on that tier, sustained
};

// Each degree above 1 in the order of the plan, of the first rank's groups.
std::vector<DegreePlace> PlacesOf(const ClusterSpec& cluster, const Fabric& fabric,
                                  const Plan& plan);

// "tp 8 on links, dp 4 on network (8 a node)".
std::string Describe(const std::vector<DegreePlace>& places);

}  // namespace foretrain
