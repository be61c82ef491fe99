// The machine a plan runs on: device, node, network, host. Leaves out measured efficiencies:
// sim/cost/device_profile.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// One accelerator, or one CPU rank of this machine. Rates are dense peaks as published; 0 =
// unknown.
struct DeviceSpec {
  std::string name;
  double fp32_flop_per_s = 0;
  double tf32_flop_per_s = 0;
  double bf16_flop_per_s = 0;
  double fp16_flop_per_s = 0;
  double fp8_flop_per_s = 0;
  double fp4_flop_per_s = 0;
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // all links to other devices, per direction; 0: through PCIe
  // Of them, those to any one device. 0: all, since a switch joins them.
  double link_peer_bytes_per_s = 0;
  int link_devices = 0;             // that links join, following each other; 0: those of a node
  bool link_reduces = false;        // switches between devices sum what passes (NVLink SHARP)
  int torus_axes = 0;               // links are two an axis of a torus; 0: they are not
  double pcie_bytes_per_s = 0;      // per direction
  int multiprocessors = 0;          // 0: unknown
  int devices_per_pcie_switch = 1;  // that share one PCIe connection to the host
  bool peer_access = true;  // devices reach each other through PCIe; false: only the host's memory
  std::string source;

  bool operator==(const DeviceSpec&) const = default;
};

// Which algorithm collectives between devices use; kAuto: the fastest that the machine has.
enum class CollectiveAlgorithm : std::uint8_t {
  kAuto,
  kRing,
  kTree,
  kHierarchical,
  kInNetwork,
  kParameterServer,
};
inline constexpr int kCollectiveAlgorithmCount = 6;
std::string_view Name(CollectiveAlgorithm algorithm);  // "auto", "ring", "tree", ...
std::optional<CollectiveAlgorithm> ParseCollectiveAlgorithm(std::string_view name);

// A further level of the network: what passes between units of `nodes` nodes that follow each
// other has `bytes_per_s` a device and direction.
struct NetworkTier {
  int nodes = 1;
  double bytes_per_s = 0;

  bool operator==(const NetworkTier&) const = default;
};
inline constexpr int kMaxNetworkTiers = 3;

struct ClusterSpec {
  std::string name = "local";
  DeviceSpec device;
  int nodes = 1;
  int devices_per_node = 1;
  double network_bytes_per_s = 0;               // per device and direction between nodes
  int adapters_per_node = 0;                    // to the network; 0: one a device
  std::vector<NetworkTier> network_tiers = {};  // ascending, each slower than what lies below
  bool network_reduces = false;                 // its switches sum what passes (SHARP)
  std::vector<int> torus = {};  // extents, the first follows device numbers; empty: no torus
  // Of one hop of a ring; 0: the usual one of its kind (sim/cost/constants/hops.csv).
  double link_latency_s = 0;
  double network_latency_s = 0;
  CollectiveAlgorithm collectives = CollectiveAlgorithm::kAuto;
  int parameter_servers = 0;  // hosts that serve parameters, for kParameterServer; 0: all nodes
  bool is_cpu = false;        // ranks are threads of this machine and share its cores and memory
  int cores = 0;              // of one node's host
  std::int64_t host_memory_bytes = 0;
  // Of one node, 0 = unknown: rate of the host's memory, and of its disks together.
  double host_bytes_per_s = 0;
  double nvme_read_bytes_per_s = 0;
  double nvme_write_bytes_per_s = 0;
  std::string assumptions;  // what was filled in, for people

  int Devices() const { return nodes * devices_per_node; }
  // Devices that links or PCIe join: those of a node, or of a set of linked ones beyond it.
  int DevicesPerUnit() const;
  bool operator==(const ClusterSpec&) const = default;
};

// Checks every field of `cluster`.
//
// Errors: kInvalidArgument, naming field, value and remedy: nodes or devices_per_node below 1 or
// more than 2^20 devices together, a rate or latency that is negative or no number, a device
// without memory; network tiers that do not ascend in nodes or are faster than what lies below; a
// torus whose extents do not make the devices; on accelerators also a device without a memory rate
// or without any 16- or 32-bit rate, and several nodes without a network rate. O(1); safe from any
// thread.
Result<void> ValidateCluster(const ClusterSpec& cluster);

// This machine's CPU as a cluster of one node whose devices are `ranks` threads; its rates are
// unknown until calibrated.
//
//   cores         of the machine, >= 1
//   memory_bytes  of the machine; each rank's share is its device's memory
//   ranks         >= 1
//
// Errors: kInvalidArgument, an argument out of range.
Result<ClusterSpec> LocalCluster(int cores, std::int64_t memory_bytes, int ranks = 1);

}  // namespace foretrain
