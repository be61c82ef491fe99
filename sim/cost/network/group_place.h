// Position of a group's members on a machine, from which the crossings of each level follow.
// communication_cost.h gives the cost.
#pragma once

#include <array>
#include <compare>
#include <vector>

#include "sim/config/cluster/cluster_spec.h"

namespace foretrain {

struct GroupPlace {
  int members = 1;
  int nodes = 1;       // units of ClusterSpec::DevicesPerUnit devices that contain members
  int per_node = 1;    // members on the node with the fewest
  int islands = 0;     // link sets that contain members; 0: as nodes, or no links
  int per_island = 0;  // members in the link set with the fewest; 0: as per_node
  // For each of ClusterSpec::network_tiers: units that contain members, and members in the unit
  // with the fewest. 0: no such tier.
  std::array<int, kMaxNetworkTiers> units{};
  std::array<int, kMaxNetworkTiers> per_unit{};
  int senders = 0;  // p2p between nodes: devices of the node that send at the same time; 0: all
  // On a torus: number of coordinates along each axis, and the distance between them.
  std::array<int, 3> extent{};
  std::array<int, 3> stride{};

  // One unit, and one link set in it, holds all members.
  bool IsWithinLinks() const { return nodes == 1 && islands <= 1; }

  auto operator<=>(const GroupPlace&) const = default;
};

// Position of the devices numbered `devices`. Device numbers fill one node after the other, and a
// torus along its first axis first. O(devices log devices).
GroupPlace PlaceOf(const ClusterSpec& cluster, const std::vector<int>& devices);

}  // namespace foretrain
