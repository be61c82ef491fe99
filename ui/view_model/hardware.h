// The figures of a machine that can be turned: rates and sizes with their ranges, and what a
// machine with other figures costs. Leaves out widgets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain::ui {

// One figure, in the unit that people use for it.
struct HardwareField {
  std::string_view name;  // "network"
  std::string_view unit;  // "GB/s"
  std::string_view help;
  double per_unit = 1;  // of the cluster's own unit: 1e9 bytes/s in a GB/s
  double low = 0;       // range of a slider, in `unit`
  double high = 0;
  double (*get)(const ClusterSpec&) = nullptr;  // 0: unknown, or the machine has none
  void (*set)(ClusterSpec&, double) = nullptr;

  double In(const ClusterSpec& cluster) const { return get(cluster) / per_unit; }
  void Set(ClusterSpec& cluster, double value) const { set(cluster, value * per_unit); }
};

// Arithmetic, memory, HBM, links, network, PCIe, host memory. Arithmetic is the device's bf16 peak
// (else its best), and setting it scales the peaks of all formats.
std::span<const HardwareField> HardwareFields();

// A machine as it was chosen: a cluster and the rates known of it.
struct MachineRates {
  ClusterSpec cluster;
  DeviceProfile profile;  // measured, or derived from the cluster
};

// Costs on `turned`, which is machine.cluster with some figures changed: derived anew where the
// profile was derived; where it was measured, its times scaled by what each rate gained (WithRate).
// Errors: those of CostModel::Make.
Result<CostModel> CostsOfTurned(const MachineRates& machine, const ClusterSpec& turned);

}  // namespace foretrain::ui
