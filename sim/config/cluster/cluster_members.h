// The plain members of clusters and their devices, in the order of files. Files and ValidateCluster
// share these tables. For the sources of this folder.
#pragma once

#include <array>

#include "base/checked.h"
#include "base/json/members.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

inline constexpr double kFastest = 1e21;  // largest rate, per second; keeps products finite
inline constexpr int kMaxTorusAxes = 3;

// A rate of 0 is unknown.
using DeviceMember = JsonMember<DeviceSpec>;
inline constexpr std::array kDeviceMembers = {
    DeviceMember{"fp32_flop_per_s", &DeviceSpec::fp32_flop_per_s, 0, kFastest},
    DeviceMember{"tf32_flop_per_s", &DeviceSpec::tf32_flop_per_s, 0, kFastest},
    DeviceMember{"bf16_flop_per_s", &DeviceSpec::bf16_flop_per_s, 0, kFastest},
    DeviceMember{"fp16_flop_per_s", &DeviceSpec::fp16_flop_per_s, 0, kFastest},
    DeviceMember{"fp8_flop_per_s", &DeviceSpec::fp8_flop_per_s, 0, kFastest},
    DeviceMember{"fp4_flop_per_s", &DeviceSpec::fp4_flop_per_s, 0, kFastest},
    DeviceMember{"halves_fp32_sums", &DeviceSpec::halves_fp32_sums},
    DeviceMember{"memory_bytes", &DeviceSpec::memory_bytes, 1, kMaxProduct},
    DeviceMember{"memory_bytes_per_s", &DeviceSpec::memory_bytes_per_s, 0, kFastest},
    DeviceMember{"link_bytes_per_s", &DeviceSpec::link_bytes_per_s, 0, kFastest},
    DeviceMember{"link_peer_bytes_per_s", &DeviceSpec::link_peer_bytes_per_s, 0, kFastest},
    DeviceMember{"link_devices", &DeviceSpec::link_devices, 0, kMaxRanks},
    DeviceMember{"link_reduces", &DeviceSpec::link_reduces},
    DeviceMember{"torus_axes", &DeviceSpec::torus_axes, 0, kMaxTorusAxes},
    DeviceMember{"pcie_bytes_per_s", &DeviceSpec::pcie_bytes_per_s, 0, kFastest},
    DeviceMember{"devices_per_pcie_switch", &DeviceSpec::devices_per_pcie_switch, 1, kMaxRanks},
    DeviceMember{"multiprocessors", &DeviceSpec::multiprocessors, 0, kMaxRanks},
    DeviceMember{"power_w", &DeviceSpec::power_w, 0, 1e6},
    DeviceMember{"peer_access", &DeviceSpec::peer_access},
};

using ClusterMember = JsonMember<ClusterSpec>;
inline constexpr std::array kNodeMembers = {
    ClusterMember{"nodes", &ClusterSpec::nodes, 1, kMaxRanks},
    ClusterMember{"devices_per_node", &ClusterSpec::devices_per_node, 1, kMaxRanks},
};
inline constexpr std::array kAdapterMembers = {
    ClusterMember{"network_bytes_per_s", &ClusterSpec::network_bytes_per_s, 0, kFastest},
    ClusterMember{"adapters_per_node", &ClusterSpec::adapters_per_node, 0, kMaxRanks},
};
inline constexpr std::array kLatencyMembers = {
    ClusterMember{"link_latency_s", &ClusterSpec::link_latency_s, 0, 1e3},
    ClusterMember{"network_latency_s", &ClusterSpec::network_latency_s, 0, 1e3},
    ClusterMember{"member_launch_s", &ClusterSpec::member_launch_s, 0, 1},
};
inline constexpr std::array kHostMembers = {
    ClusterMember{"parameter_servers", &ClusterSpec::parameter_servers, 0, kMaxRanks},
    ClusterMember{"is_cpu", &ClusterSpec::is_cpu},
    ClusterMember{"cores", &ClusterSpec::cores, 0, kMaxRanks},
    ClusterMember{"host_memory_bytes", &ClusterSpec::host_memory_bytes, 0, kMaxProduct},
    ClusterMember{"host_bytes_per_s", &ClusterSpec::host_bytes_per_s, 0, kFastest},
    ClusterMember{"nvme_read_bytes_per_s", &ClusterSpec::nvme_read_bytes_per_s, 0, kFastest},
    ClusterMember{"nvme_write_bytes_per_s", &ClusterSpec::nvme_write_bytes_per_s, 0, kFastest},
};

}  // namespace foretrain
