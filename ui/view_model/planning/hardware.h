// Machine parameters that the user can change: rates and sizes with their ranges, and the costs on
// the changed machine.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/cost_model.h"

namespace foretrain::ui {

// One parameter, in its usual unit.
struct HardwareField {
  std::string_view name;  // "network"
  std::string_view unit;  // "GB/s"
  std::string_view help;
  double per_unit = 1;  // of the cluster's own unit: 1e9 bytes/s per GB/s
  double low = 0;       // range of a slider, in `unit`
  double high = 0;
  double (*get)(const ClusterSpec&) = nullptr;  // 0: unknown, or the machine has none
  void (*set)(ClusterSpec&, double) = nullptr;

  double In(const ClusterSpec& cluster) const { return get(cluster) / per_unit; }
  void Set(ClusterSpec& cluster, double value) const { set(cluster, value * per_unit); }
};

// Arithmetic, memory, HBM, links, network, PCIe, host memory. Arithmetic is the device's bf16 peak
// (its best peak if it has none); setting it scales the peaks of all formats.
std::span<const HardwareField> HardwareFields();

// A machine as it was chosen: a cluster and its known rates.
struct MachineRates {
  ClusterSpec cluster;
  DeviceProfile profile;  // measured, or derived from the cluster
};

// Costs on `turned`, which is machine.cluster with some parameters changed. A derived profile is
// derived again; a measured one has its times scaled by the change of each rate (WithRate). Errors:
// those of ValidateCluster and CostModel::Make.
Result<CostModel> CostsOfTurned(const MachineRates& machine, const ClusterSpec& turned);

}  // namespace foretrain::ui
