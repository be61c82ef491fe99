#include "sim/memory/device_use.h"

#include <algorithm>

#include "base/result.h"
#include "sim/memory/reserved_peak.h"

namespace foretrain {
namespace {

constexpr int kAllStages = 4;  // pipelines of more are looked at in part

}  // namespace

std::int64_t RoomOf(const ClusterSpec& cluster, const DeviceOverhead& outside) {
  return std::max<std::int64_t>(0, cluster.device.memory_bytes - outside.Total());
}

DeviceUse DeviceUseOf(const ModelSpec& model, const Plan& plan, const RankProgram& rank,
                            std::int64_t tensors, const ClusterSpec& cluster,
                            const SystemOptions& system) {
  DeviceUse out{tensors, 0, DeviceOverheadOf(cluster, plan, system)};
  std::int64_t held = rank.arena_bytes[static_cast<std::size_t>(Space::kDevice)];
  if (system.caching_allocator && !cluster.is_cpu) {
    const std::int64_t room = std::max<std::int64_t>(1, RoomOf(cluster, out.outside));
    held = PredictReserved(model, plan, rank.Coordinates(), system, room).reserved;
  }
  out.held = std::max<std::int64_t>(0, held - tensors);
  return out;
}

FullestDevice FullestDeviceOf(const ModelSpec& model, const Program& program,
                              std::span<const PeakMemory> tensors, const ClusterSpec& cluster,
                              const SystemOptions& system) {
  FT_CHECK(tensors.size() == program.ranks.size() && !tensors.empty());
  const auto most = std::max_element(
      tensors.begin(), tensors.end(),
      [](const PeakMemory& a, const PeakMemory& b) { return a.total < b.total; });
  const auto fullest = static_cast<std::size_t>(most - tensors.begin());
  const bool all = !system.caching_allocator || program.plan.pp <= kAllStages;
  FullestDevice out;
  for (std::size_t r = 0; r < tensors.size(); ++r) {
    if (!all && r != 0 && r + 1 != tensors.size() && r != fullest) continue;
    const DeviceUse memory = DeviceUseOf(model, program.plan, program.ranks[r],
                                               tensors[r].total, cluster, system);
    if (r == 0 || memory.Total() > out.memory.Total()) out = {r, memory};
  }
  return out;
}

}  // namespace foretrain
