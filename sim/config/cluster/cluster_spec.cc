#include "sim/config/cluster/cluster_spec.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/enum_names.h"
#include "sim/config/cluster/cluster_members.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kCollectiveAlgorithmCount> kAlgorithmNames = {
    "auto", "ring", "tree", "hierarchical", "in-network", "parameter-server"};

// Checks every number of a table against its limits.
template <class T, std::size_t kCount>
Result<void> CheckMembers(std::string_view place, const std::array<JsonMember<T>, kCount>& members,
                          const T& of) {
  for (const JsonMember<T>& member : members) {
    const auto check = [&]<class V>(V T::*at) -> Result<void> {
      const V value = of.*at;
      const auto low = static_cast<V>(member.low), high = static_cast<V>(member.high);
      if (std::is_same_v<V, bool> || (value >= low && value <= high)) return {};  // false for NaN
      if (std::is_same_v<V, double>) {
        return Refuse("{}{} {}: must be a number from 0 (unknown) to {}", place, member.name, value,
                      high);
      }
      return Refuse("{}{} {}: must be from {} to {}", place, member.name, value, low, high);
    };
    FT_TRY(std::visit(check, member.at));
  }
  return {};
}

// Limits keep ids and products of counts within their integer types, and products of rates and
// sizes finite.
Result<void> CheckNumbers(const ClusterSpec& cluster) {
  FT_TRY(CheckMembers("", kNodeMembers, cluster));
  FT_TRY(CheckMembers("", kHostMembers, cluster));
  FT_TRY(CheckMembers("device.", kDeviceMembers, cluster.device));
  FT_TRY(CheckMembers("", kAdapterMembers, cluster));
  FT_TRY(CheckMembers("", kLatencyMembers, cluster));
  const std::int64_t devices = std::int64_t{cluster.nodes} * cluster.devices_per_node;
  if (devices > kMaxRanks) {
    return Refuse("nodes {} x devices_per_node {}: {} devices, at most {} are possible",
                  cluster.nodes, cluster.devices_per_node, devices, kMaxRanks);
  }
  return {};
}

// Each tier must join more nodes than the one below, at no higher rate.
Result<void> CheckTiers(const ClusterSpec& cluster) {
  if (cluster.network_tiers.size() > kMaxNetworkTiers) {
    return Refuse("network_tiers: {} of them; at most {} are possible",
                  cluster.network_tiers.size(), kMaxNetworkTiers);
  }
  int nodes = 0;
  double rate = cluster.network_bytes_per_s;
  for (const NetworkTier& tier : cluster.network_tiers) {
    if (tier.nodes <= nodes || tier.nodes > kMaxRanks) {
      return Refuse("network_tiers nodes {}: must be above {}, that of the tier before, and to {}",
                    tier.nodes, nodes, kMaxRanks);
    }
    if (!(tier.bytes_per_s > 0 && tier.bytes_per_s <= rate)) {
      return Refuse("network_tiers bytes_per_s {}: must be above 0 and at most {}, the rate below",
                    tier.bytes_per_s, rate);
    }
    nodes = tier.nodes;
    rate = tier.bytes_per_s;
  }
  return {};
}

// Rates between the measured numbers of nodes are interpolated, so the numbers must ascend.
Result<void> CheckMeasuredNetwork(const ClusterSpec& cluster) {
  if (cluster.measured_network.size() > kMaxMeasuredNetworks) {
    return Refuse("measured_network: {} entries; at most {} are possible",
                  cluster.measured_network.size(), kMaxMeasuredNetworks);
  }
  int nodes = 1;
  for (const MeasuredNetwork& measured : cluster.measured_network) {
    if (measured.nodes <= nodes || measured.nodes > kMaxRanks) {
      return Refuse(
          "measured_network nodes {}: must be above {}, that of the entry before, and to {}",
          measured.nodes, nodes, kMaxRanks);
    }
    for (const double rate : {measured.reduce_bytes_per_s, measured.gather_bytes_per_s}) {
      if (!(rate > 0 && rate <= kFastest)) {
        return Refuse("measured_network rate {}: must be above 0 and at most {} bytes per second",
                      rate, kFastest);
      }
    }
    nodes = measured.nodes;
  }
  return {};
}

// The extents' product is capped, so that it cannot overflow before it is compared.
Result<void> CheckTorus(const ClusterSpec& cluster) {
  if (cluster.torus.empty()) return {};
  if (cluster.torus.size() > kMaxTorusAxes) {
    return Refuse("torus: {} axes; at most {} are possible", cluster.torus.size(), kMaxTorusAxes);
  }
  if (cluster.device.link_bytes_per_s <= 0) {
    return Refuse("torus: device.link_bytes_per_s {} must be above 0, all links of a device",
                  cluster.device.link_bytes_per_s);
  }
  std::int64_t devices = 1;
  for (const int extent : cluster.torus) {
    if (extent < 1 || extent > kMaxRanks) {
      return Refuse("torus {}: must be from 1 to {}", extent, kMaxRanks);
    }
    devices = std::min<std::int64_t>(devices * extent, std::int64_t{kMaxRanks} + 1);
  }
  if (devices != cluster.Devices()) {
    return Refuse("torus: its extents make {} devices; nodes x devices_per_node are {}", devices,
                  cluster.Devices());
  }
  return {};
}

}  // namespace

// A link domain such as NVL72 may span nodes; its devices then form one unit.
int ClusterSpec::DevicesPerUnit() const {
  const bool beyond = device.link_bytes_per_s > 0 && device.link_devices > devices_per_node;
  return beyond ? device.link_devices : devices_per_node;
}

// O(devices / domain).
int EvenShareOfDomain(int devices, int domain, int node) {
  const int fewest = (devices + domain - 1) / domain;
  for (int domains = fewest; domains <= fewest + fewest / 3; ++domains) {
    if (devices % domains == 0 && devices / domains % node == 0) return devices / domains;
  }
  return domain;
}

std::string_view Name(CollectiveAlgorithm algorithm) { return NameIn(kAlgorithmNames, algorithm); }

std::optional<CollectiveAlgorithm> ParseCollectiveAlgorithm(std::string_view name) {
  return ParseIn<CollectiveAlgorithm>(kAlgorithmNames, name);
}

// A network rate is needed only if devices are in more than one unit and not joined as a torus. CPU
// ranks need no rates, because those are measured.
Result<void> ValidateCluster(const ClusterSpec& cluster) {
  FT_TRY(CheckNumbers(cluster));
  FT_TRY(CheckTiers(cluster));
  FT_TRY(CheckMeasuredNetwork(cluster));
  FT_TRY(CheckTorus(cluster));
  const bool networked = cluster.torus.empty() && cluster.Devices() > cluster.DevicesPerUnit();
  if (networked && cluster.network_bytes_per_s <= 0) {
    return Refuse(
        "network_bytes_per_s {}: {} nodes need a rate above 0, in bytes per second, device and "
        "direction",
        cluster.network_bytes_per_s, cluster.nodes);
  }
  if (cluster.is_cpu) return {};
  const DeviceSpec& device = cluster.device;
  if (device.memory_bytes_per_s <= 0) {
    return Refuse("device.memory_bytes_per_s {}: must be above 0, in bytes per second",
                  device.memory_bytes_per_s);
  }
  if (std::max({device.bf16_flop_per_s, device.fp16_flop_per_s, device.fp32_flop_per_s}) <= 0) {
    return Refuse("device.bf16_flop_per_s {}: bf16, fp16 or fp32_flop_per_s must be above 0",
                  device.bf16_flop_per_s);
  }
  return {};
}

// Ranks are threads that share all cores, so cores belong to the cluster and memory is divided
// among ranks. Rates stay unknown until they are measured.
Result<ClusterSpec> LocalCluster(int cores, std::int64_t memory_bytes, int ranks) {
  if (cores < 1) return Refuse("cores {}: must be at least 1", cores);
  if (ranks < 1) return Refuse("ranks {}: must be at least 1", ranks);
  ClusterSpec cluster;
  cluster.device.name = "cpu";
  cluster.device.memory_bytes = memory_bytes / ranks;
  cluster.device.source = "this machine";
  cluster.devices_per_node = ranks;
  cluster.is_cpu = true;
  cluster.cores = cores;
  cluster.host_memory_bytes = memory_bytes;
  cluster.assumptions =
      fmt::format("{} rank{} share{} {} core{} and the memory of this machine", ranks,
                  ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", cores, cores == 1 ? "" : "s");
  FT_TRY(ValidateCluster(cluster));
  return cluster;
}

}  // namespace foretrain
