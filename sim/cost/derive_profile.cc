#include "sim/cost/derive_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/cost/fabric.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 5> kPrecisionNames{"fp32", "tf32", "bf16", "fp16", "fp8"};
constexpr std::array<double, 5> kElementBytes{4, 4, 2, 2, 1};

constexpr double kGemmEfficiency = 0.75;
constexpr double kAttentionForward = 0.5;
constexpr double kAttentionBackward = 0.4;
constexpr double kMemoryEfficiency = 0.85;
constexpr double kPcieBytesPerSecond = 16e9;  // where it is not known: generation 3, 16 lanes
constexpr double kOverlapSlowdown = 1.1;

// Of a host with unknown memory and disks: two sockets of 8 channels DDR4, four PCIe 4 drives.
constexpr double kHostBytesPerSecond = 200e9;
constexpr double kHostEfficiency = 0.7;
constexpr double kCoreBytesPerSecond = 10e9;  // that one core moves
constexpr double kNvmeReadBytesPerSecond = 12e9;
constexpr double kNvmeWriteBytesPerSecond = 6e9;

constexpr double kCpuFlopPerSecond = 50e9;
constexpr double kCpuBytesPerSecond = 8e9;

Figure Assumed(double value) { return {value, Provenance::kDefault}; }

struct Peak {
  double flop_per_s = 0;
  MathPrecision precision = MathPrecision::kFp32;
};

// The published peak nearest to `wanted`: slower precisions first, then faster ones.
Peak PeakOf(const DeviceSpec& device, MathPrecision wanted) {
  const std::array<double, 5> peaks{device.fp32_flop_per_s, device.tf32_flop_per_s,
                                    device.bf16_flop_per_s, device.fp16_flop_per_s,
                                    device.fp8_flop_per_s};
  const auto first = static_cast<std::size_t>(wanted);
  if (peaks[first] > 0) return {peaks[first], wanted};
  // bf16 and fp16 run at one rate wherever both exist.
  constexpr std::size_t kBf16 = static_cast<std::size_t>(MathPrecision::kBf16);
  constexpr std::size_t kFp16 = static_cast<std::size_t>(MathPrecision::kFp16);
  if (first == kBf16 && peaks[kFp16] > 0) return {peaks[kFp16], MathPrecision::kFp16};
  for (std::size_t i = first; i-- > 0;) {
    if (peaks[i] > 0) return {peaks[i], static_cast<MathPrecision>(i)};
  }
  for (std::size_t i = first; i < peaks.size(); ++i) {
    if (peaks[i] > 0) return {peaks[i], static_cast<MathPrecision>(i)};
  }
  return {};
}

// Of a node's memory; cores that are too few do not fill it.
double HostMemoryRate(const ClusterSpec& cluster) {
  const double known =
      cluster.host_bytes_per_s > 0 ? cluster.host_bytes_per_s : kHostBytesPerSecond;
  const double memory = kHostEfficiency * known;
  return cluster.cores > 0 ? std::min(memory, cluster.cores * kCoreBytesPerSecond) : memory;
}

// `seconds` of a hop where the cluster says it, else the usual one.
double HopSeconds(Wire wire, double seconds) {
  return seconds > 0 ? seconds : Networks().Hop(Pattern::kRing, wire, Protocol::kSimple);
}

void AddNetwork(const ClusterSpec& cluster, ProfileRates& rates) {
  const DeviceSpec& device = cluster.device;
  const NetworkConstants& constants = Networks();
  const bool linked = device.link_bytes_per_s > 0;
  const Wire wire = !cluster.torus.empty() ? Wire::kTorus : linked ? Wire::kLink : Wire::kPcie;
  const double link =
      linked ? constants.Efficiency(wire) * device.link_bytes_per_s : PciePeerRate(device);
  const double staged = linked || device.peer_access ? 1 : 2;
  rates.link_bytes_per_s = Assumed(link > 0 ? link : rates.memory_bytes_per_s.value);
  rates.link_base_s = Assumed(constants.Base(Pattern::kRing, Protocol::kSimple));
  rates.link_hop_s = Assumed(staged * HopSeconds(wire, cluster.link_latency_s));
  const double network = constants.Efficiency(Wire::kNetwork) * cluster.network_bytes_per_s;
  rates.network_bytes_per_s = Assumed(network > 0 ? network : rates.link_bytes_per_s.value);
  rates.network_base_s = Assumed(constants.Base(Pattern::kRing, Protocol::kSimple));
  rates.network_hop_s = Assumed(HopSeconds(Wire::kNetwork, cluster.network_latency_s));
}

// Devices behind one switch share its connection to the host, and all of a node its memory.
double HostCopyRate(const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  const double pcie = device.pcie_bytes_per_s > 0 ? device.pcie_bytes_per_s : kPcieBytesPerSecond;
  const int sharing = std::min(cluster.devices_per_node, device.devices_per_pcie_switch);
  const double bus = Networks().Efficiency(Wire::kPcie) * pcie / std::max(1, sharing);
  return std::min(bus, HostMemoryRate(cluster) / cluster.devices_per_node);
}

// All ranks of a node at work share its memory and its disks.
void AddHost(const ClusterSpec& cluster, ProfileRates& rates) {
  const auto share = [&cluster](double known, double otherwise) {
    return Assumed((known > 0 ? known : otherwise) / cluster.devices_per_node);
  };
  rates.host_bytes_per_s = Assumed(HostMemoryRate(cluster) / cluster.devices_per_node);
  rates.nvme_read_bytes_per_s = share(cluster.nvme_read_bytes_per_s, kNvmeReadBytesPerSecond);
  rates.nvme_write_bytes_per_s = share(cluster.nvme_write_bytes_per_s, kNvmeWriteBytesPerSecond);
}

DeviceProfile DeriveCpu(const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  const double flop = device.fp32_flop_per_s > 0 ? device.fp32_flop_per_s : kCpuFlopPerSecond;
  const double bytes =
      device.memory_bytes_per_s > 0 ? device.memory_bytes_per_s : kCpuBytesPerSecond;
  DeviceProfile profile;
  profile.device = device.name;
  ProfileRates& rates = profile.rates;
  rates.gemm_flop_per_s = Assumed(flop);
  rates.gemm_fill_s = Assumed(0);
  rates.attention_forward_flop_per_s = Assumed(kAttentionForward * flop);
  rates.attention_backward_flop_per_s = Assumed(kAttentionBackward * flop);
  rates.memory_bytes_per_s = Assumed(bytes);
  rates.kernel_s = Assumed(1e-6);
  rates.launch_s = Assumed(1e-6);
  rates.gap_s = Assumed(1e-6);
  rates.wake_s = Assumed(30e-6);
  rates.copy_bytes_per_s = Assumed(bytes);
  rates.host_read_s = Assumed(5e-6);
  rates.overlap_slowdown = Assumed(1);
  rates.element_bytes = Assumed(4);
  AddNetwork(cluster, rates);
  rates.link_bytes_per_s = Assumed(bytes);  // ranks of one machine copy through its memory
  rates.link_base_s = Assumed(60e-6);       // threads meet twice, each time woken
  rates.link_hop_s = Assumed(0);
  AddHost(cluster, rates);
  rates.host_bytes_per_s = Assumed(bytes);
  profile.assumptions = fmt::format(
      "{}: not calibrated; one core taken to do {:.0f} GFLOP/s and {:.0f} GB/s. Run `foretrain "
      "calibrate` for figures of this machine",
      device.name, flop / 1e9, bytes / 1e9);
  return profile;
}

}  // namespace

std::string_view Name(MathPrecision precision) {
  return kPrecisionNames[static_cast<std::size_t>(precision)];
}

DeviceProfile DeriveProfile(const ClusterSpec& cluster, MathPrecision precision) {
  if (cluster.is_cpu) return DeriveCpu(cluster);
  const DeviceSpec& device = cluster.device;
  const Peak peak = PeakOf(device, precision);
  DeviceProfile profile;
  profile.device = device.name;
  ProfileRates& rates = profile.rates;
  rates.gemm_flop_per_s = Assumed(kGemmEfficiency * peak.flop_per_s);
  rates.gemm_fill_s = Assumed(6e-6);
  rates.attention_forward_flop_per_s = Assumed(kAttentionForward * peak.flop_per_s);
  rates.attention_backward_flop_per_s = Assumed(kAttentionBackward * peak.flop_per_s);
  rates.memory_bytes_per_s = Assumed(kMemoryEfficiency * device.memory_bytes_per_s);
  rates.kernel_s = Assumed(3e-6);
  rates.launch_s = Assumed(4e-6);
  rates.gap_s = Assumed(1.5e-6);
  rates.wake_s = Assumed(2e-6);
  rates.copy_bytes_per_s = Assumed(HostCopyRate(cluster));
  rates.host_read_s = Assumed(10e-6);
  rates.overlap_slowdown = Assumed(kOverlapSlowdown);
  rates.element_bytes = Assumed(kElementBytes[static_cast<std::size_t>(precision)]);
  AddNetwork(cluster, rates);
  AddHost(cluster, rates);
  profile.assumptions = fmt::format(
      "{}: not calibrated; {} GEMMs at {:.2f} and memory at {:.2f} of the published peaks, "
      "attention at {:.2f} and {:.2f}: defaults that nothing on this machine has proven",
      device.name, Name(precision), kGemmEfficiency, kMemoryEfficiency, kAttentionForward,
      kAttentionBackward);
  if (peak.precision != precision) {
    profile.assumptions += fmt::format("; no {} peak is published, that of {} stands in",
                                       Name(precision), Name(peak.precision));
  }
  return profile;
}

}  // namespace foretrain
