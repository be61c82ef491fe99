#include "sim/cost/network/fabric.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

// Ratio of a given hop time to the constants'. Other protocols scale by the same ratio.
double HopScale(Wire wire, double seconds) {
  return seconds / Networks().Hop(Pattern::kRing, wire, Protocol::kSimple);
}

double BaseScale(double seconds) {
  return seconds / Networks().Base(Pattern::kRing, Protocol::kSimple);
}

// Levels between nodes. The first has the profile's rate, the others are slower in their nominal
// ratio.
std::vector<Level> NetworkLevels(const ClusterSpec& cluster, const ProfileRates& rates) {
  Level first;
  first.wire = Wire::kNetwork;
  first.bytes_per_s = rates.network_bytes_per_s.value;
  first.hop_scale = HopScale(Wire::kNetwork, rates.network_hop_s.value);
  first.sums = cluster.network_reduces;
  if (!cluster.measured_network.empty()) first.hop_s = cluster.network_latency_s;
  std::vector<Level> levels = {first};
  for (const NetworkTier& tier : cluster.network_tiers) {
    Level level = first;
    level.bytes_per_s *= tier.bytes_per_s / cluster.network_bytes_per_s;
    levels.push_back(level);
  }
  return levels;
}

}  // namespace

double MeasuredNetworkRate(const Fabric& fabric, int nodes, bool reduces) {
  const std::vector<MeasuredNetwork>& measured = fabric.measured_network;
  if (measured.empty()) return 0;
  const auto rate = [reduces](const MeasuredNetwork& of) {
    return reduces ? of.reduce_bytes_per_s : of.gather_bytes_per_s;
  };
  const auto above = std::find_if(measured.begin(), measured.end(),
                                  [nodes](const auto& of) { return of.nodes >= nodes; });
  if (above == measured.begin()) return rate(measured.front());
  if (above == measured.end()) return rate(measured.back());
  const MeasuredNetwork& below = *(above - 1);
  const double part = std::log(static_cast<double>(nodes) / below.nodes) /
                      std::log(static_cast<double>(above->nodes) / below.nodes);
  return rate(below) * std::pow(rate(*above) / rate(below), part);
}

double PciePeerRate(const DeviceSpec& device) {
  return Networks().Efficiency(Wire::kPcie) * device.pcie_bytes_per_s /
         (device.peer_access ? 1 : 2);
}

// Links and PCIe are separate levels. Without links, PCIe is the innermost one and has the
// profile's link rates.
Fabric MakeFabric(const ClusterSpec& cluster, const ProfileRates& rates) {
  const DeviceSpec& device = cluster.device;
  Fabric fabric;
  const bool linked = device.link_bytes_per_s > 0 || cluster.is_cpu;
  Level& inner = linked ? fabric.link : fabric.pcie;
  inner.wire = linked ? Wire::kLink : Wire::kPcie;
  inner.bytes_per_s = rates.link_bytes_per_s.value;
  inner.hop_scale = HopScale(inner.wire, rates.link_hop_s.value);
  if (linked && device.link_peer_bytes_per_s > 0) {
    // A node with fewer devices has more links between any two.
    const double shared_out = device.link_bytes_per_s / std::max(1, cluster.devices_per_node - 1);
    inner.peer_bytes_per_s = inner.bytes_per_s *
                             std::max(device.link_peer_bytes_per_s, shared_out) /
                             device.link_bytes_per_s;
  }
  inner.sums = device.link_reduces;
  if (linked) {
    fabric.pcie.wire = Wire::kPcie;
    fabric.pcie.bytes_per_s = PciePeerRate(device);
    fabric.pcie.hop_scale = device.peer_access ? 1 : 2;
  }
  if (!cluster.torus.empty()) {
    fabric.torus = cluster.torus;
    fabric.link.wire = Wire::kTorus;
    fabric.link.hop_scale = HopScale(Wire::kTorus, rates.link_hop_s.value);
    const auto links = static_cast<double>(2 * std::max<std::size_t>(1, cluster.torus.size()));
    fabric.axis_bytes_per_s = rates.link_bytes_per_s.value / links;
  }
  fabric.network = NetworkLevels(cluster, rates);
  fabric.measured_network = cluster.measured_network;
  fabric.link_base_scale = BaseScale(rates.link_base_s.value);
  fabric.network_base_scale = BaseScale(rates.network_base_s.value);
  fabric.ll128 = device.link_bytes_per_s > 0;
  fabric.devices_per_node = cluster.devices_per_node;
  fabric.adapters_per_node = cluster.adapters_per_node;
  fabric.nodes = cluster.nodes;
  fabric.algorithm = cluster.collectives;
  fabric.parameter_servers = cluster.parameter_servers;
  return fabric;
}

// In a mesh each pair of units has its own links, so fewer members have fewer links.
double Crossing::Rate() const {
  double rate = level->bytes_per_s;
  if (level->peer_bytes_per_s > 0) rate = std::min(rate, (Fan() - 1) * level->peer_bytes_per_s);
  return rate * carriers;
}

// A level is crossed if it joins more units below than above. Tiers that the place does not know
// are treated as one unit above.
std::vector<Crossing> CrossingsOf(const Fabric& fabric, const GroupPlace& place) {
  const bool linked = fabric.link.bytes_per_s > 0;
  int islands = place.islands;
  if (islands == 0) islands = linked ? place.nodes : place.members;
  const int per_island = place.per_island > 0 ? place.per_island : linked ? place.per_node : 1;
  std::vector<Crossing> crossings;
  const auto add = [&](const Level& level, int before, int after, int carriers) {
    if (before > after) crossings.push_back({&level, before, after, carriers});
  };
  add(fabric.link, place.members, islands, 1);
  add(fabric.pcie, islands, place.nodes, per_island);
  int before = place.nodes;
  int carriers = place.per_node;
  for (std::size_t i = 0; i < fabric.network.size(); ++i) {
    const bool last = i + 1 == fabric.network.size();
    const int after = last || place.units[i] == 0 ? 1 : place.units[i];
    add(fabric.network[i], before, after, carriers);
    if (!last && place.units[i] > 0) {
      before = place.units[i];
      carriers = place.per_unit[i];
    }
  }
  return crossings;
}

}  // namespace foretrain
