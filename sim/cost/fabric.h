// What devices of a cluster meet over, level by level, at the rates of a device profile. Leaves out
// what a collective makes of it (communication_cost.h).
#pragma once

#include <array>
#include <vector>

#include "sim/cost/device_profile.h"
#include "sim/cost/group_place.h"
#include "sim/cost/network_constants.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain {

// One level. Rates are sustained, of one device and direction while all others are at work too.
struct Level {
  Wire wire = Wire::kLink;
  double bytes_per_s = 0;       // 0: there is no such level
  double peer_bytes_per_s = 0;  // to any one device; 0: all of it
  double hop_scale = 1;         // its hops take so many times those of the constants
  bool sums = false;            // its switches sum what passes

  double Hop(Pattern pattern, Protocol protocol) const {
    const double hop = Networks().Hop(pattern, wire, protocol);
    return hop < 0 ? hop : hop * hop_scale;
  }
};

struct Fabric {
  Level link;                  // between the linked devices of a node, or of several (NVL72)
  Level pcie;                  // between devices of a node that no link joins
  std::vector<Level> network;  // between nodes, then between the units of each further tier
  double link_base_scale = 1;  // starts of collectives within a node, against the constants'
  double network_base_scale = 1;
  bool ll128 = false;           // the links keep the order of 128 bytes, as NVLink does
  std::vector<int> torus;       // extents; empty: no torus
  double axis_bytes_per_s = 0;  // torus: of one link, one direction
  int devices_per_node = 1;
  int adapters_per_node = 0;  // 0: one a device
  int nodes = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int parameter_servers = 0;
};

// The fabric of `cluster`: levels that profiles have figures for at these, all others from the
// cluster's nominal rates times Networks().efficiency. Without links, link_bytes_per_s of the
// profile is PCIe's. O(1).
Fabric MakeFabric(const ClusterSpec& cluster, const ProfileRates& rates);

// Sustained rate between devices over PCIe: through the host's memory, where they cannot reach each
// other, each byte takes the bus twice.
double PciePeerRate(const DeviceSpec& device);

// A level that a group's traffic crosses: `before` units lie below it and `after` above; `carriers`
// members of a unit share its traffic.
struct Crossing {
  const Level* level = nullptr;
  int before = 1;
  int after = 1;
  int carriers = 1;

  int Steps() const { return before - after; }
  // Units below that one unit above holds, the fullest.
  int Fan() const { return (before + after - 1) / after; }
  // Bytes per second between two units below it.
  double Rate() const;
};

// From the innermost level that it crosses to the outermost; empty for one member. `fabric` is
// borrowed. O(levels).
std::vector<Crossing> CrossingsOf(const Fabric& fabric, const GroupPlace& place);

}  // namespace foretrain
