// How the members of a group lie on a machine: how often what they exchange crosses each level.
// Leaves out what that costs (communication_cost.h).
#pragma once

#include <array>
#include <compare>
#include <vector>

#include "sim/spec/cluster_spec.h"

namespace foretrain {

struct GroupPlace {
  int members = 1;
  int nodes = 1;       // ClusterSpec::DevicesPerUnit devices each, that they lie on
  int per_node = 1;    // members on the node that has fewest
  int islands = 0;     // sets of linked devices that they lie on; 0: as nodes, or none are linked
  int per_island = 0;  // members in the one that has fewest; 0: as per_node
  // For each of ClusterSpec::network_tiers: units that they lie on, and members in the one that
  // has fewest; 0: no such tier.
  std::array<int, kMaxNetworkTiers> units{};
  std::array<int, kMaxNetworkTiers> per_unit{};
  int senders = 0;  // p2p between nodes: devices of the node that send at once; 0: all
  // On a torus: places along each axis that members have, and how far these lie from each other.
  std::array<int, 3> extent{};
  std::array<int, 3> stride{};

  auto operator<=>(const GroupPlace&) const = default;
};

// The place of the devices numbered `devices`; devices fill one node after the other, and a torus
// along its first axis first. O(devices log devices).
GroupPlace PlaceOf(const ClusterSpec& cluster, const std::vector<int>& devices);

}  // namespace foretrain
