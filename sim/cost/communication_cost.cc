#include "sim/cost/communication_cost.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace foretrain {
namespace {

double SharedSeconds(const ProfileRates& rates, OpKind kind, double bytes, double n) {
  double traffic = 2 * bytes;
  if (kind == OpKind::kReduceScatter) traffic = bytes * (1 + 1 / n);
  if (kind == OpKind::kAllGather) traffic = 2 * bytes * (n - 1) / n;
  if (kind == OpKind::kAllReduce) traffic = bytes * (1 + 1 / n) + 2 * bytes * (n - 1) / n;
  return rates.link_base_s.value + traffic / rates.link_bytes_per_s.value;
}

}  // namespace

GroupPlace PlaceOf(const ClusterSpec& cluster, const std::vector<int>& members) {
  std::map<int, int> on_node;
  for (const int rank : members) ++on_node[rank / cluster.devices_per_node];
  GroupPlace place;
  place.members = static_cast<int>(members.size());
  place.nodes = static_cast<int>(on_node.size());
  place.per_node = place.members;
  for (const auto& [node, count] : on_node) place.per_node = std::min(place.per_node, count);
  return place;
}

double CommunicationSeconds(const ProfileRates& rates, OpKind kind, double bytes,
                            const GroupPlace& place, bool shared) {
  const double n = place.members;
  const bool p2p = !IsCollective(kind) || kind == OpKind::kRotate;
  if (place.members < 2) return 0.0;
  if (shared && place.nodes == 1) return SharedSeconds(rates, kind, bytes, n);
  const double m = place.nodes;
  const double k = p2p ? 1.0 : static_cast<double>(place.per_node);
  const double a = rates.link_hop_s.value;
  const double b = rates.network_hop_s.value;
  const bool one_node = place.nodes == 1;
  const double base = one_node ? rates.link_base_s.value : rates.network_base_s.value;
  const double link = rates.link_bytes_per_s.value;
  const double rate = one_node ? link : std::min(link, k * rates.network_bytes_per_s.value);
  if (p2p) return base + bytes / rate;
  if (kind == OpKind::kAllToAll) {
    const double inside = (k - 1) / n * bytes / link;
    const double outside = one_node ? 0 : (n - k) / n * bytes / rates.network_bytes_per_s.value;
    return base + (one_node ? a : b) + std::max(inside, outside);
  }
  const double ring = (one_node ? (n - 1) * a : (n - m) * a + m * b) + (n - 1) / n * bytes / rate;
  if (kind != OpKind::kAllReduce) return base + ring;
  const double tree = 2 * ((k - 1) * a + std::log2(m) * b) + 2 * bytes / rate;
  return base + std::min(2 * ring, tree);
}

}  // namespace foretrain
