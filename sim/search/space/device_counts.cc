#include "sim/search/space/device_counts.h"

#include <algorithm>
#include <limits>

#include "sim/config/rules/refuse.h"
#include "sim/memory/host_memory.h"
#include "sim/search/space/default_space.h"

namespace foretrain {

// Part of a node, or whole nodes: other numbers would need a cluster of unequal nodes.
Result<ClusterSpec> WithDevices(const ClusterSpec& cluster, int devices) {
  ClusterSpec out = cluster;
  if (devices >= 1 && devices <= cluster.devices_per_node && cluster.nodes >= 1) {
    out.nodes = 1;
    out.devices_per_node = devices;
  } else if (devices >= 1 && devices % cluster.devices_per_node == 0) {
    out.nodes = devices / cluster.devices_per_node;
  } else {
    return Refuse("{} devices: nodes of cluster {} have {}; give a multiple of that, or fewer",
                  devices, cluster.name, cluster.devices_per_node);
  }
  return out;
}

// One enumeration per number of devices, each on a cluster of that size. The front is marked from
// few to many devices.
Result<std::vector<DeviceCount>> CompareDeviceCounts(const ModelSpec& model, const CostModel& costs,
                                                     const Plan& base,
                                                     const std::vector<int>& counts, int threads,
                                                     const std::function<bool()>& cancelled) {
  std::vector<DeviceCount> out;
  for (const int devices : counts) {
    FT_ASSIGN(const ClusterSpec cluster, WithDevices(costs.cluster(), devices));
    FT_ASSIGN(const CostModel machine, CostModel::Make(cluster, costs.profile()));
    const SearchSpace space = DefaultSpace(model, cluster, devices, base);
    EnumerateOptions options;
    options.memory_bytes = cluster.device.memory_bytes;
    options.host_bytes = HostShareOf(cluster, machine.profile().system);
    options.kept = 1;
    options.front = false;
    options.threads = threads;
    options.cancelled = cancelled;
    FT_ASSIGN(const Enumeration found, EnumeratePlans(model, machine, space, devices, options));
    out.push_back({devices, std::nullopt, false});
    if (!found.fastest.empty()) out.back().best = found.fastest.front();
  }
  std::sort(out.begin(), out.end(),
            [](const DeviceCount& a, const DeviceCount& b) { return a.devices < b.devices; });
  // A number of devices is on the front if no smaller number is as fast.
  double fastest_s = std::numeric_limits<double>::infinity();
  for (DeviceCount& count : out) {
    if (!count.best) continue;
    count.pareto = count.best->estimate.step_s < fastest_s;
    fastest_s = std::min(fastest_s, count.best->estimate.step_s);
  }
  return out;
}

TrainingCost CostOfTraining(double tokens, double tokens_per_s, int devices, double price_per_hour,
                            double power_w) {
  const double seconds = tokens / tokens_per_s;
  return {seconds, seconds / 3600 * devices * price_per_hour, seconds * devices * power_w};
}

}  // namespace foretrain
