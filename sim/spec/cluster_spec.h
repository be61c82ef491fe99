// The machine a plan runs on: device, node, network, host. Leaves out measured efficiencies:
// sim/cost/device_profile.h.
#pragma once

#include <cstdint>
#include <string>

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
  std::int64_t memory_bytes = 0;
  double memory_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // to other devices of the node, per direction; 0: through PCIe
  double pcie_bytes_per_s = 0;  // per direction
  std::string source;

  bool operator==(const DeviceSpec&) const = default;
};

struct ClusterSpec {
  std::string name = "local";
  DeviceSpec device;
  int nodes = 1;
  int devices_per_node = 1;
  double network_bytes_per_s = 0;  // per device and direction between nodes
  double link_latency_s = 5e-6;
  double network_latency_s = 15e-6;
  bool is_cpu = false;  // ranks are threads of this machine and share its cores and memory
  int cores = 0;        // of one node's host
  std::int64_t host_memory_bytes = 0;
  // Of one node, 0 = unknown: rate of the host's memory, and of its disks together.
  double host_bytes_per_s = 0;
  double nvme_read_bytes_per_s = 0;
  double nvme_write_bytes_per_s = 0;
  std::string assumptions;  // what was filled in, for people

  int Devices() const { return nodes * devices_per_node; }
  bool operator==(const ClusterSpec&) const = default;
};

// Checks every field of `cluster`.
//
// Errors: kInvalidArgument, naming field, value and remedy: nodes or devices_per_node below 1 or
// more than 2^20 devices together, a rate or latency that is negative or no number, a device
// without memory; on accelerators also a device without a memory rate or without any 16- or 32-bit
// rate, and several nodes without a network rate. O(1); safe from any thread.
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
