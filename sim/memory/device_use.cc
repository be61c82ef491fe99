#include "sim/memory/device_use.h"

#include <algorithm>
#include <vector>

#include "base/result.h"
#include "sim/memory/reserved_peak.h"

namespace foretrain {
namespace {

constexpr int kAllStages = 4;  // longer pipelines examine three ranks

// True if the system's allocator or eager kernels make the need differ from the program's arena.
bool IsReplayed(const SystemOptions& system) {
  return system.caching_allocator || system.logit_bytes > 0;
}

// Numbers of the ranks to examine. A replay costs O(ops) per rank, so long pipelines examine only
// the likely maxima: ends and the largest tensors.
std::vector<std::size_t> ToLookAt(std::span<const PeakMemory> tensors, int pp,
                                  const SystemOptions& system) {
  const auto most =
      std::max_element(tensors.begin(), tensors.end(),
                       [](const PeakMemory& a, const PeakMemory& b) { return a.total < b.total; });
  const auto fullest = static_cast<std::size_t>(most - tensors.begin());
  const bool all = !IsReplayed(system) || pp <= kAllStages;
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < tensors.size(); ++r) {
    if (all || r == 0 || r + 1 == tensors.size() || r == fullest) out.push_back(r);
  }
  return out;
}

}  // namespace

std::int64_t RoomOf(const ClusterSpec& cluster, const DeviceOverhead& outside) {
  return std::max<std::int64_t>(0, cluster.device.memory_bytes - outside.Total());
}

bool Fits(const DeviceUse& use, const ClusterSpec& cluster) {
  return use.Needed() <= cluster.device.memory_bytes;
}

// Without a replay the arena is exact: its gaps are the difference to the peak. With one, the
// replay decides both what is held and what is cached, for a device of the size that is left.
DeviceUse DeviceUseOf(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                      std::int64_t tensors, std::int64_t arena, const ClusterSpec& cluster,
                      const SystemOptions& system) {
  DeviceUse out{tensors, 0, 0, DeviceOverheadOf(cluster, plan, system)};
  if (!IsReplayed(system) || cluster.is_cpu) {
    out.held = std::max<std::int64_t>(0, arena - tensors);
    return out;
  }
  const std::int64_t room = RoomOf(cluster, out.outside);
  const ReservedMemory memory =
      PredictReserved(model, plan, at, system, std::max<std::int64_t>(1, room));
  out.held = memory.allocated - tensors;
  if (!system.caching_allocator) return out;
  out.cached = std::max<std::int64_t>(0, std::min(memory.reserved, room) - memory.allocated);
  return out;
}

DeviceUse DeviceUseOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                      std::int64_t tensors, const ClusterSpec& cluster,
                      const SystemOptions& system) {
  DeviceUse out =
      DeviceUseOf(model, program.plan, rank.Coordinates(), tensors,
                  rank.arena_bytes[static_cast<std::size_t>(Space::kDevice)], cluster, system);
  out.outside.graphs = GraphBytesOf(cluster, program, rank, system);
  return out;
}

// Compares needs, not totals: cached segments never make a plan fail.
FullestDevice FullestDeviceOf(const ModelSpec& model, const Program& program,
                              std::span<const PeakMemory> tensors, const ClusterSpec& cluster,
                              const SystemOptions& system) {
  FT_CHECK(tensors.size() == program.ranks.size() && !tensors.empty());
  FullestDevice out;
  for (const std::size_t r : ToLookAt(tensors, program.plan.pp, system)) {
    const DeviceUse memory =
        DeviceUseOf(model, program, program.ranks[r], tensors[r].total, cluster, system);
    if (r == 0 || memory.Needed() > out.memory.Needed()) out = {r, memory};
  }
  return out;
}

// The closed form gives the tensors of all stages; only the likely fullest are replayed.
StageUse FullestStageOf(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                        const SystemOptions& system) {
  std::vector<PeakMemory> tensors;
  for (int pp = 0; pp < plan.pp; ++pp) {
    tensors.push_back(PredictPeakMemory(model, plan, {.pp = pp}));
  }
  StageUse out;
  for (const std::size_t pp : ToLookAt(tensors, plan.pp, system)) {
    const DeviceUse memory = DeviceUseOf(model, plan, {.pp = static_cast<int>(pp)},
                                         tensors[pp].total, tensors[pp].total, cluster, system);
    if (pp == 0 || memory.Needed() > out.memory.Needed()) out = {static_cast<int>(pp), memory};
  }
  return out;
}

}  // namespace foretrain
