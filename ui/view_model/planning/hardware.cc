#include "ui/view_model/planning/hardware.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/cost/profile/derive_profile.h"
#include "sim/search/advice/sensitivity.h"

namespace foretrain::ui {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;

// The bf16 peak, or the best of fp16 and fp32 if the device has no bf16.
double ArithmeticOf(const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  if (device.bf16_flop_per_s > 0) return device.bf16_flop_per_s;
  return std::max(device.fp16_flop_per_s, device.fp32_flop_per_s);
}

// All formats scale by the factor of the one that is shown, so that their ratios stay those of the
// device.
void SetArithmetic(ClusterSpec& cluster, double flop_per_s) {
  const double before = ArithmeticOf(cluster);
  if (before <= 0) return;
  DeviceSpec& device = cluster.device;
  for (double* peak : {&device.fp32_flop_per_s, &device.tf32_flop_per_s, &device.bf16_flop_per_s,
                       &device.fp16_flop_per_s, &device.fp8_flop_per_s, &device.fp4_flop_per_s}) {
    *peak *= flop_per_s / before;
  }
}

// Tiers scale with the rate of the network, so that oversubscription stays.
void SetNetwork(ClusterSpec& cluster, double bytes_per_s) {
  const double factor =
      cluster.network_bytes_per_s > 0 ? bytes_per_s / cluster.network_bytes_per_s : 1;
  cluster.network_bytes_per_s = bytes_per_s;
  for (NetworkTier& tier : cluster.network_tiers) tier.bytes_per_s *= factor;
}

// The rate between two peers scales with the total, since both share the links.
void SetLinks(ClusterSpec& cluster, double bytes_per_s) {
  DeviceSpec& device = cluster.device;
  if (device.link_bytes_per_s <= 0) return;
  device.link_peer_bytes_per_s *= bytes_per_s / device.link_bytes_per_s;
  device.link_bytes_per_s = bytes_per_s;
}

constexpr auto kFields = std::to_array<HardwareField>({
    {"arithmetic", "TFLOP/s", "Dense bf16 peak of a device; other formats in proportion", kTera, 1,
     20000, ArithmeticOf, SetArithmetic},
    {"memory", "GiB", "Memory of a device", kGibi, 1, 2048,
     [](const ClusterSpec& c) { return static_cast<double>(c.device.memory_bytes); },
     [](ClusterSpec& c, double bytes) {
       c.device.memory_bytes = static_cast<std::int64_t>(bytes);
     }},
    {"HBM", "GB/s", "Rate of a device's memory", kGiga, 50, 50000,
     [](const ClusterSpec& c) { return c.device.memory_bytes_per_s; },
     [](ClusterSpec& c, double rate) { c.device.memory_bytes_per_s = rate; }},
    {"links", "GB/s", "Between devices of a node, per device and direction", kGiga, 1, 10000,
     [](const ClusterSpec& c) { return c.device.link_bytes_per_s; }, SetLinks},
    {"network", "GB/s", "Between nodes, per device and direction", kGiga, 0.1, 2000,
     [](const ClusterSpec& c) { return c.nodes > 1 ? c.network_bytes_per_s : 0.0; }, SetNetwork},
    {"PCIe", "GB/s", "Between a device and its host, per direction", kGiga, 1, 1000,
     [](const ClusterSpec& c) { return c.device.pcie_bytes_per_s; },
     [](ClusterSpec& c, double rate) { c.device.pcie_bytes_per_s = rate; }},
    {"host memory", "GiB", "Memory of a node's host", kGibi, 1, 16384,
     [](const ClusterSpec& c) { return static_cast<double>(c.host_memory_bytes); },
     [](ClusterSpec& c, double bytes) { c.host_memory_bytes = static_cast<std::int64_t>(bytes); }},
});

// Change of a rate; 1 if either value is unknown.
double Factor(double now, double before) { return before > 0 && now > 0 ? now / before : 1; }

}  // namespace

std::span<const HardwareField> HardwareFields() { return kFields; }

// A derived profile is derived again. A measured one is kept, and only the rates that changed are
// scaled, so that its measured inefficiencies stay.
Result<CostModel> CostsOfTurned(const MachineRates& machine, const ClusterSpec& turned) {
  FT_TRY(ValidateCluster(turned));
  if (machine.profile.date.empty() && !turned.is_cpu) {
    return CostModel::Make(turned, DeriveProfile(turned, machine.profile.system));
  }
  const DeviceSpec& now = turned.device;
  const DeviceSpec& before = machine.cluster.device;
  DeviceProfile profile = machine.profile;
  for (const auto& [resource, factor] :
       {std::pair{Resource::kArithmetic,
                  Factor(ArithmeticOf(turned), ArithmeticOf(machine.cluster))},
        std::pair{Resource::kMemory, Factor(now.memory_bytes_per_s, before.memory_bytes_per_s)},
        std::pair{Resource::kLinks, Factor(now.link_bytes_per_s, before.link_bytes_per_s)},
        std::pair{Resource::kNetwork,
                  Factor(turned.network_bytes_per_s, machine.cluster.network_bytes_per_s)},
        std::pair{Resource::kPcie, Factor(now.pcie_bytes_per_s, before.pcie_bytes_per_s)}}) {
    if (factor != 1) profile = WithRate(profile, resource, factor);
  }
  return CostModel::Make(turned, profile);
}

}  // namespace foretrain::ui
