#include "sim/cost/network/group_place.h"

#include <algorithm>

namespace foretrain {
namespace {

// How a group spreads over units of one size.
struct Spread {
  int units = 0;   // units of `size` devices that contain members
  int fewest = 0;  // members in the unit with the fewest
};

// Groups sorted device numbers into units of `size` consecutive devices.
Spread SpreadOver(const std::vector<int>& sorted, std::int64_t size) {
  Spread spread{0, static_cast<int>(sorted.size())};
  for (std::size_t i = 0; i < sorted.size();) {
    const std::int64_t unit = sorted[i] / size;
    const std::size_t first = i;
    while (i < sorted.size() && sorted[i] / size == unit) ++i;
    ++spread.units;
    spread.fewest = std::min(spread.fewest, static_cast<int>(i - first));
  }
  return spread;
}

// Projects the devices onto each axis; the group counts as the box of its distinct coordinates.
void PlaceOnTorus(const std::vector<int>& torus, const std::vector<int>& devices,
                  GroupPlace& place) {
  int below = 1;  // devices between neighbours along the axis
  for (std::size_t axis = 0; axis < torus.size() && axis < place.extent.size(); ++axis) {
    std::vector<int> at;
    at.reserve(devices.size());
    for (const int device : devices) at.push_back(device / below % torus[axis]);
    std::sort(at.begin(), at.end());
    at.erase(std::unique(at.begin(), at.end()), at.end());
    place.extent[axis] = static_cast<int>(at.size());
    place.stride[axis] = at.size() < 2 ? 1 : (at.back() - at.front()) / (place.extent[axis] - 1);
    below *= torus[axis];
  }
}

}  // namespace

// Describes a group by counts per level instead of its devices, so that ranks with the same pattern
// share costs. The smallest count per unit limits the group.
GroupPlace PlaceOf(const ClusterSpec& cluster, const std::vector<int>& devices) {
  std::vector<int> sorted = devices;
  if (!std::is_sorted(sorted.begin(), sorted.end())) std::sort(sorted.begin(), sorted.end());
  const Spread nodes = SpreadOver(sorted, cluster.DevicesPerUnit());
  GroupPlace place;
  place.members = static_cast<int>(sorted.size());
  place.nodes = nodes.units;
  place.per_node = nodes.fewest;
  const int linked = cluster.device.link_devices;
  if (cluster.device.link_bytes_per_s > 0 && linked > 0 && linked < cluster.devices_per_node) {
    // The last link set of a node may be incomplete; it must not merge with the next node's first.
    std::vector<int> numbered;
    const int sets = (cluster.devices_per_node + linked - 1) / linked;
    for (const int device : sorted) {
      const int node = device / cluster.devices_per_node;
      numbered.push_back(node * sets + device % cluster.devices_per_node / linked);
    }
    const Spread islands = SpreadOver(numbered, 1);
    place.islands = islands.units;
    place.per_island = islands.fewest;
  }
  for (std::size_t tier = 0; tier < cluster.network_tiers.size() && tier < place.units.size();
       ++tier) {
    const std::int64_t size = std::max<std::int64_t>(
        cluster.DevicesPerUnit(),
        std::int64_t{cluster.network_tiers[tier].nodes} * cluster.devices_per_node);
    const Spread units = SpreadOver(sorted, size);
    place.units[tier] = units.units;
    place.per_unit[tier] = units.fewest;
  }
  PlaceOnTorus(cluster.torus, devices, place);
  return place;
}

}  // namespace foretrain
