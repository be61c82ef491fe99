// The levels over which a cluster's devices communicate, at the rates of a device profile.
// communication_cost.h computes collectives on them.
#pragma once

#include <vector>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/network/group_place.h"
#include "sim/cost/network/network_constants.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

// One level. Rates are sustained by one device in one direction while all others are busy too.
struct Level {
  Wire wire = Wire::kLink;
  double bytes_per_s = 0;       // 0: no such level
  double peer_bytes_per_s = 0;  // to any one device; 0: the whole rate
  double hop_scale = 1;         // factor of the constants' hop time
  double hop_s = 0;             // measured time of a hop; 0: as the constants say
  bool sums = false;            // switches reduce in the network

  double Hop(Pattern pattern, Protocol protocol) const {
    const double hop = Networks().Hop(pattern, wire, protocol);
    if (hop_s > 0 && hop >= 0) return hop_s;
    return hop < 0 ? hop : hop * hop_scale;
  }
};

struct Fabric {
  Level link;                  // between linked devices of a node, or of several (NVL72)
  Level pcie;                  // between devices of a node that no link joins
  std::vector<Level> network;  // between nodes, then between the units of each further tier
  std::vector<MeasuredNetwork> measured_network;  // as in ClusterSpec
  double link_base_scale = 1;  // factor of the constants' start time within a node
  double network_base_scale = 1;
  bool ll128 = false;           // links keep 128-byte writes in order, as NVLink does
  std::vector<int> torus;       // extents; empty: no torus
  double axis_bytes_per_s = 0;  // torus: one link, one direction
  int devices_per_node = 1;
  int adapters_per_node = 0;  // 0: one per device
  int nodes = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int parameter_servers = 0;
};

// The fabric of `cluster`. Levels in the profile use its rates; all others use the cluster's
// nominal rates times Networks().efficiency. Without links, the profile's link_bytes_per_s is
// PCIe's rate. O(1).
Fabric MakeFabric(const ClusterSpec& cluster, const ProfileRates& rates);

// Rate per device and direction of a collective over a group on `nodes` nodes, interpolated between
// the measured numbers of nodes in logarithms; constant beyond them. 0: nothing was measured.
//
//   reduces  an all-reduce; otherwise a gather or scatter
double MeasuredNetworkRate(const Fabric& fabric, int nodes, bool reduces);

// Sustained rate between devices over PCIe. Without peer access each byte passes the bus twice,
// through host memory.
double PciePeerRate(const DeviceSpec& device);

// A level that a group's traffic crosses, with `before` units below and `after` above. `carriers`
// members of a unit share its traffic.
struct Crossing {
  const Level* level = nullptr;
  int before = 1;
  int after = 1;
  int carriers = 1;

  int Steps() const { return before - after; }
  // Units below in the fullest unit above.
  int Fan() const { return (before + after - 1) / after; }
  // Bytes per second between two units below the level.
  double Rate() const;
};

// Levels from the innermost to the outermost that the group crosses; empty for one member. Keeps
// pointers into `fabric`. O(levels).
std::vector<Crossing> CrossingsOf(const Fabric& fabric, const GroupPlace& place);

}  // namespace foretrain
