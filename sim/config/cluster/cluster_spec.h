// The machine a plan runs on: device, node, network, host. Measured efficiencies are in
// sim/cost/profile/device_profile.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// One accelerator, or one CPU rank of this machine. Rates are dense peaks as published; 0 means
// unknown.
struct DeviceSpec {
  std::string name;
  double fp32_flop_per_s = 0;
  double tf32_flop_per_s = 0;
  double bf16_flop_per_s = 0;
  double fp16_flop_per_s = 0;
  double fp8_flop_per_s = 0;
  double fp4_flop_per_s = 0;
  // Tensor cores sum in fp32 at half the rate of sums in 16 bits (GeForce). Peaks of 16 and 8 bits
  // are those with fp32 sums.
  bool halves_fp32_sums = false;
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // all links to other devices, per direction; 0: traffic uses PCIe
  // The part of link_bytes_per_s to any one device. 0: all of it, because a switch joins them.
  double link_peer_bytes_per_s = 0;
  int link_devices = 0;             // consecutive devices that links join; 0: those of a node
  bool link_reduces = false;        // switches reduce in the network (NVLink SHARP)
  int torus_axes = 0;               // axes of a torus with two links each; 0: no torus
  double pcie_bytes_per_s = 0;      // per direction
  int multiprocessors = 0;          // 0: unknown
  int devices_per_pcie_switch = 1;  // devices that share one PCIe connection to the host
  double power_w = 0;               // rated power of the board
  bool peer_access = true;  // devices reach each other over PCIe; false: only through host memory
  std::string source;

  bool operator==(const DeviceSpec&) const = default;
};

// Algorithm of collectives between devices. kAuto is the fastest that the machine supports.
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

// A further level of the network: traffic between units of `nodes` consecutive nodes has
// `bytes_per_s` per device and direction.
struct NetworkTier {
  int nodes = 1;
  double bytes_per_s = 0;

  bool operator==(const NetworkTier&) const = default;
};
inline constexpr int kMaxNetworkTiers = 3;

// Measured rates of collectives over all devices of `nodes` nodes: a ring's traffic per second,
// device and direction. That is nccl-tests' bus bandwidth divided by the devices of a node.
struct MeasuredNetwork {
  int nodes = 2;
  double reduce_bytes_per_s = 0;  // all-reduce
  double gather_bytes_per_s = 0;  // all-gather and reduce-scatter

  bool operator==(const MeasuredNetwork&) const = default;
};
inline constexpr int kMaxMeasuredNetworks = 16;

struct ClusterSpec {
  std::string name = "local";
  DeviceSpec device;
  int nodes = 1;
  int devices_per_node = 1;
  double network_bytes_per_s = 0;  // between nodes, per device and direction
  int adapters_per_node = 0;       // network adapters; 0: one per device
  // Ascending in nodes, each no faster than the one below.
  std::vector<NetworkTier> network_tiers = {};
  // Ascending in nodes; replaces network_bytes_per_s for collectives between nodes.
  std::vector<MeasuredNetwork> measured_network = {};
  bool network_reduces = false;  // switches reduce in the network (SHARP)
  // Extents; the first runs over neighbouring devices; empty: no torus.
  std::vector<int> torus = {};
  // Latency of one hop of a ring; 0: the typical one of its kind
  // (sim/cost/profile/constants/networks.csv). Other patterns and protocols scale with it, unless
  // the network was measured: then every hop between nodes takes network_latency_s.
  double link_latency_s = 0;
  double network_latency_s = 0;
  // Host time to launch a collective for each member beyond the first, where hosts are busy.
  double member_launch_s = 0;
  CollectiveAlgorithm collectives = CollectiveAlgorithm::kAuto;
  int parameter_servers = 0;  // hosts that serve parameters, for kParameterServer; 0: all nodes
  bool is_cpu = false;        // ranks are threads of this machine that share its cores and memory
  int cores = 0;              // cores of one node's host
  std::int64_t host_memory_bytes = 0;
  // Rates of one node; 0 means unknown: host memory, and all its disks together.
  double host_bytes_per_s = 0;
  double nvme_read_bytes_per_s = 0;
  double nvme_write_bytes_per_s = 0;
  std::string assumptions;  // values that were filled in, for people

  int Devices() const { return nodes * devices_per_node; }
  // Devices joined by links or PCIe: those of a node, or of a link domain that spans several.
  int DevicesPerUnit() const;
  bool operator==(const ClusterSpec&) const = default;
};

// Devices that a job of `devices` uses of each link domain of up to `domain` devices: the same
// number of each, whole nodes of `node` devices, on as few domains as that allows. Jobs on NVL72
// racks use 64 of 72 if their number of devices is a power of two, so that no group straddles
// racks. Returns `domain` if equal shares would take more than a third more domains.
int EvenShareOfDomain(int devices, int domain, int node);

// Checks every field of `cluster`.
//
// Errors: kInvalidArgument, naming field, value and remedy:
//   - nodes or devices_per_node below 1, or more than 2^20 devices in all;
//   - a rate or latency that is negative or NaN; a device without memory;
//   - network tiers that do not ascend in nodes, or are faster than the one below;
//   - a torus whose extents do not multiply to the number of devices;
//   - accelerators: no memory rate, or no 16- or 32-bit compute rate;
//   - several units without a network rate.
// O(1); safe from any thread.
Result<void> ValidateCluster(const ClusterSpec& cluster);

// This machine's CPU as a cluster of one node whose devices are `ranks` threads. Rates are unknown
// until calibrated.
//
//   cores         of the machine, >= 1
//   memory_bytes  of the machine; each rank's device has an equal share
//   ranks         >= 1
//
// Errors: kInvalidArgument for an argument out of range.
Result<ClusterSpec> LocalCluster(int cores, std::int64_t memory_bytes, int ranks = 1);

}  // namespace foretrain
