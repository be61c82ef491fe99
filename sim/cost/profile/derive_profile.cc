#include "sim/cost/profile/derive_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/checked.h"
#include "sim/cost/measured/hot_kernels.h"
#include "sim/cost/network/fabric.h"

namespace foretrain {
namespace {

// Shares of published peaks that kernels reach, if the architecture is unknown.
constexpr double kGemmEfficiency = 0.75;
constexpr double kAttentionForward = 0.5;
constexpr double kAttentionBackward = 0.4;
constexpr double kMemoryEfficiency = 0.85;
constexpr double kPcieBytesPerSecond = 16e9;  // if unknown: generation 3, 16 lanes
// A collective holds about 20 of 132 multiprocessors (DeepSeek-AI 2024, s. 3.2.2): 132 / 112.
constexpr double kOverlapSlowdown = 1.2;

// Defaults for an unknown host: two sockets with 8 channels DDR4, four PCIe 4 drives.
constexpr double kHostBytesPerSecond = 200e9;
constexpr double kHostEfficiency = 0.7;
constexpr double kCoreBytesPerSecond = 10e9;  // memory rate of one core
constexpr double kNvmeReadBytesPerSecond = 12e9;
constexpr double kNvmeWriteBytesPerSecond = 6e9;

// One core of an unknown CPU.
constexpr double kCpuFlopPerSecond = 50e9;
constexpr double kCpuBytesPerSecond = 8e9;

Figure Assumed(double value) { return {value, Provenance::kDefault}; }

struct Peak {
  double flop_per_s = 0;
  NumberFormat format = NumberFormat::kFp32;
};

// The published peak nearest to `wanted`: slower formats first, then faster ones.
Peak PeakOf(const DeviceSpec& device, NumberFormat wanted) {
  const std::array<Peak, 6> peaks{{{device.fp32_flop_per_s, NumberFormat::kFp32},
                                   {device.tf32_flop_per_s, NumberFormat::kTf32},
                                   {device.bf16_flop_per_s, NumberFormat::kBf16},
                                   {device.fp16_flop_per_s, NumberFormat::kFp16},
                                   {device.fp8_flop_per_s, NumberFormat::kFp8},
                                   {device.fp4_flop_per_s, NumberFormat::kFp4}}};
  std::size_t first = 0;
  while (peaks[first].format != wanted) ++first;
  if (peaks[first].flop_per_s > 0) return peaks[first];
  // bf16 and fp16 run at the same rate wherever both exist.
  if (wanted == NumberFormat::kBf16 && device.fp16_flop_per_s > 0) {
    return {device.fp16_flop_per_s, NumberFormat::kFp16};
  }
  for (std::size_t i = first; i-- > 0;) {
    if (peaks[i].flop_per_s > 0) return peaks[i];
  }
  for (std::size_t i = first; i < peaks.size(); ++i) {
    if (peaks[i].flop_per_s > 0) return peaks[i];
  }
  return {};
}

// The same for products in `format`; data sheets have one peak for all formats of 8 bits.
Peak PeakOfProducts(const DeviceSpec& device, NumberFormat format) {
  return PeakOf(device, LayoutOf(format).bits == 8 ? NumberFormat::kFp8 : format);
}

// Memory rate of a node. Too few cores cannot use all of it.
double HostMemoryRate(const ClusterSpec& cluster) {
  const double known =
      cluster.host_bytes_per_s > 0 ? cluster.host_bytes_per_s : kHostBytesPerSecond;
  const double memory = kHostEfficiency * known;
  return cluster.cores > 0 ? std::min(memory, cluster.cores * kCoreBytesPerSecond) : memory;
}

// `seconds` of a hop if the cluster gives it, else the constants' value.
double HopSeconds(Wire wire, double seconds) {
  return seconds > 0 ? seconds : Networks().Hop(Pattern::kRing, wire, Protocol::kSimple);
}

struct FormatRate {
  NumberFormat format;
  Figure ProfileRates::*rate;
};
constexpr std::array<FormatRate, 6> kGemmRates{
    {{NumberFormat::kFp32, &ProfileRates::gemm_flop_per_s},
     {NumberFormat::kTf32, &ProfileRates::gemm_tf32_flop_per_s},
     {NumberFormat::kFp16, &ProfileRates::gemm_fp16_flop_per_s},
     {NumberFormat::kBf16, &ProfileRates::gemm_bf16_flop_per_s},
     {NumberFormat::kFp8, &ProfileRates::gemm_fp8_flop_per_s},
     {NumberFormat::kFp4, &ProfileRates::gemm_fp4_flop_per_s}}};

// Without links, ranks of a node meet over PCIe; without peer access each hop takes two bus
// transfers.
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

// Devices behind one PCIe switch share its host connection, and all devices of a node its memory.
double HostCopyRate(const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  const double pcie = device.pcie_bytes_per_s > 0 ? device.pcie_bytes_per_s : kPcieBytesPerSecond;
  const int sharing = std::min(cluster.devices_per_node, device.devices_per_pcie_switch);
  const double bus = Networks().Efficiency(Wire::kPcie) * pcie / std::max(1, sharing);
  return std::min(bus, HostMemoryRate(cluster) / cluster.devices_per_node);
}

// All ranks of a node are busy at the same time, so they share its memory and disks evenly.
void AddHost(const ClusterSpec& cluster, ProfileRates& rates) {
  const auto share = [&cluster](double known, double otherwise) {
    return Assumed((known > 0 ? known : otherwise) / cluster.devices_per_node);
  };
  rates.host_bytes_per_s = Assumed(HostMemoryRate(cluster) / cluster.devices_per_node);
  rates.nvme_read_bytes_per_s = share(cluster.nvme_read_bytes_per_s, kNvmeReadBytesPerSecond);
  rates.nvme_write_bytes_per_s = share(cluster.nvme_write_bytes_per_s, kNvmeWriteBytesPerSecond);
}

// Rates of one thread as a rank. They are rough guesses, because a CPU run is expected to be
// calibrated.
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
  AddNetwork(cluster, rates);
  rates.link_bytes_per_s = Assumed(bytes);  // ranks of one machine copy through its memory
  rates.link_base_s = Assumed(60e-6);       // threads meet twice, woken each time
  rates.link_hop_s = Assumed(0);
  AddHost(cluster, rates);
  rates.host_bytes_per_s = Assumed(bytes);
  profile.assumptions = fmt::format(
      "{}: not calibrated; one core taken to do {:.0f} GFLOP/s and {:.0f} GB/s. Run `foretrain "
      "calibrate` for figures of this machine",
      device.name, flop / 1e9, bytes / 1e9);
  return profile;
}

// A product that fills every device.
constexpr std::int64_t kLargeSide = 8192;
constexpr ProductShape kLargeProduct = {kLargeSide, kLargeSide, kLargeSide};

// Sets rates that agree with the kernel model. Gaps between kernels are part of each kernel's time.
void AddKernels(const KernelModel& kernels, const KernelForecast& hot, ProfileRates& rates) {
  const Architecture& of = kernels.architecture;
  for (const auto& [format, rate] : kGemmRates) {
    if (LayoutOf(format).bits > 16) continue;
    const double seconds = ProductSeconds(kernels, hot, format, kLargeProduct);
    const Figure& share =
        LayoutOf(format).bits == 16 ? of.sustained_share : of.sustained_short_share;
    rates.*rate = {2.0 * kLargeSide * kLargeSide * kLargeSide / seconds, share.provenance};
  }
  rates.memory_bytes_per_s = {of.memory_efficiency.value * kernels.memory_bytes_per_s,
                              of.memory_efficiency.provenance};
  rates.kernel_s = of.kernel_s;
  rates.gap_s = Assumed(0);
}

// One sentence for people.
std::string AssumptionsOf(const DeviceProfile& profile) {
  if (profile.kernels.has_value()) {
    const Architecture& of = profile.kernels->architecture;
    return fmt::format(
        "{}: not calibrated; kernels of {} GPUs, GEMMs at {:.2f} of hot loops and memory at {:.2f} "
        "of the published peak: defaults that nothing on this machine has proven",
        profile.device, of.name, of.sustained_share.value, of.memory_efficiency.value);
  }
  return fmt::format(
      "{}: not calibrated; GEMMs at {:.2f} and memory at {:.2f} of the published peaks, "
      "attention at {:.2f} and {:.2f}: defaults that nothing on this machine has proven",
      profile.device, kGemmEfficiency, kMemoryEfficiency, kAttentionForward, kAttentionBackward);
}

}  // namespace

// Rates come first, then the kernel model, if the architecture is known, replaces those of compute.
DeviceProfile DeriveProfile(const ClusterSpec& cluster, const SystemOptions& system) {
  if (cluster.is_cpu) return DeriveCpu(cluster);
  const DeviceSpec& device = cluster.device;
  DeviceProfile profile;
  profile.device = device.name;
  ProfileRates& rates = profile.rates;
  std::string stand_ins;
  for (const auto& [format, rate] : kGemmRates) {
    const Peak peak = PeakOf(device, format);
    rates.*rate = Assumed(kGemmEfficiency * peak.flop_per_s);
    if (peak.format == format) continue;
    stand_ins += fmt::format("; no {} peak is published, that of {} stands in", Name(format),
                             Name(peak.format));
  }
  const double attention_peak = rates.gemm_flop_per_s.value / kGemmEfficiency;
  rates.gemm_fill_s = Assumed(6e-6);
  rates.attention_forward_flop_per_s = Assumed(kAttentionForward * attention_peak);
  rates.attention_backward_flop_per_s = Assumed(kAttentionBackward * attention_peak);
  rates.memory_bytes_per_s = Assumed(kMemoryEfficiency * device.memory_bytes_per_s);
  rates.kernel_s = Assumed(3e-6);
  rates.gap_s = Assumed(1.5e-6);
  rates.wake_s = Assumed(2e-6);
  rates.copy_bytes_per_s = Assumed(HostCopyRate(cluster));
  rates.host_read_s = Assumed(10e-6);
  rates.overlap_slowdown = Assumed(kOverlapSlowdown);
  AddNetwork(cluster, rates);
  AddHost(cluster, rates);
  LaySystem(system, profile);
  const auto architectures = BuiltInArchitectures();
  FT_CHECK(architectures.has_value());
  profile.kernels = KernelModelOf(device, *architectures);
  if (profile.kernels) AddKernels(*profile.kernels, HotKernelsOf(device).value(), rates);
  profile.assumptions = AssumptionsOf(profile) + stand_ins;
  return profile;
}

// All 8-bit formats share the fp8 peak. fp32 has no replacement: another format's peak would be
// compared with real fp32 products.
double PublishedPeak(const DeviceSpec& device, NumberFormat format) {
  if (format == NumberFormat::kFp32) return device.fp32_flop_per_s;
  return PeakOfProducts(device, format).flop_per_s;
}

NumberFormat PublishedPeakFormat(const DeviceSpec& device, NumberFormat format) {
  return format == NumberFormat::kFp32 ? format : PeakOfProducts(device, format).format;
}

}  // namespace foretrain
