#include "sim/memory/device_use.h"

#include <algorithm>
#include <vector>

#include "base/result.h"
#include "sim/memory/host_lead.h"
#include "sim/program/graphs/graph_stretches.h"
#include "sim/program/ir/groups.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// 1271 MiB on a V100 (BigScience, chronicles-prequel of tr11-176B: "the cuda kernels").
constexpr std::int64_t kContextBytes = std::int64_t{1271} << 20;
// NCCL within a node: 16 channels, each with 4 MiB of buffers per direction and peer, and as much
// again for the LL and LL128 protocols: 16 x 2 x 4 x 2 MiB. Between nodes: 544 MB per group,
// measured in https://github.com/NVIDIA/nccl/issues/964 (688 MB with other settings; issue 864
// reports 1.6 GB).
constexpr std::int64_t kNodeCommunicatorBytes = std::int64_t{256} << 20;
constexpr std::int64_t kNetworkCommunicatorBytes = 544'000'000;
// CUPTI, cupti_activity.h: three buffers of 3,200,000 bytes allocated per context in advance.
constexpr std::int64_t kProfilerBytes = 3 * 3'200'000;
// "CUDA graph consumes around 10KB per kernel node" (github.com/NVIDIA/cccl/pull/3768). An op of
// several kernels counts once.
constexpr std::int64_t kGraphOpBytes = 10'000;
// Messages of PyTorch's allocator give 79.14 to 79.33 GiB of 80 as a device's capacity, 39.50 of
// 40, 31.75 of 32: about a hundredth is missing.
constexpr std::int64_t kOfDriver = 100;  // divides the device's memory

constexpr std::array<OverheadEntry, kOverheadEntries> kEntries = {{
    {"device context", &DeviceOverhead::context,
     "1271 MiB as BigScience saw on V100 (chronicles-prequel), or the preset's"},
    {"communicators", &DeviceOverhead::communicators,
     "256 MiB a group within a node (16 channels of NCCL), 544 MB between nodes "
     "(github.com/NVIDIA/nccl/issues/964)"},
    {"library workspaces", &DeviceOverhead::workspaces,
     "64 MiB, or the preset's: 32 MiB of cuBLAS (PyTorch, CUDA semantics)"},
    {"profiler", &DeviceOverhead::profiler, "three buffers of 3.2 MB (cupti_activity.h)"},
    {"CUDA graphs", &DeviceOverhead::graphs,
     "10 KB an op in a graph (github.com/NVIDIA/cccl/pull/3768)"},
    {"kept by the driver", &DeviceOverhead::driver,
     "a hundredth: PyTorch reports 79.1 to 79.3 GiB of 80"},
}};

constexpr std::array kGroups = {GroupKind::kTp,       GroupKind::kCp,    GroupKind::kEp,
                                GroupKind::kDp,       GroupKind::kShard, GroupKind::kReplica,
                                GroupKind::kExpertDp, GroupKind::kNext,  GroupKind::kPrev};

// False if the group equals another group and shares its communicator.
bool IsOwn(const Plan& plan, GroupKind kind) {
  if (kind == GroupKind::kShard || kind == GroupKind::kReplica) return plan.replicas > 1;
  if (kind == GroupKind::kExpertDp) return plan.ep > 1;
  return true;
}

constexpr int kAllStages = 4;  // longer pipelines examine three ranks

// The fullest of the ranks with these tensors; `use` gives the memory of one. A replay costs O(ops)
// per rank, so long pipelines examine only the likely maxima: ends and the largest tensors.
// Compares needs, not totals: cached segments never make a plan fail.
template <typename UseOf>
FullestDevice FullestOf(std::span<const PeakMemory> tensors, int pp, const SystemOptions& system,
                        const UseOf& use) {
  const auto largest =
      std::max_element(tensors.begin(), tensors.end(),
                       [](const PeakMemory& a, const PeakMemory& b) { return a.total < b.total; });
  const auto fullest = static_cast<std::size_t>(largest - tensors.begin());
  const bool all = !IsReplayed(system) || pp <= kAllStages;
  FullestDevice out;
  for (std::size_t r = 0; r < tensors.size(); ++r) {
    if (!all && r != 0 && r + 1 != tensors.size() && r != fullest) continue;
    const DeviceUse memory = use(r);
    if (r == 0 || memory.Needed() > out.memory.Needed()) out = {r, memory};
  }
  return out;
}

}  // namespace

const std::array<OverheadEntry, kOverheadEntries>& OverheadEntries() { return kEntries; }

// Counts for rank 0 stand for all ranks: they differ only at the ends of the pipeline, where the
// first rank is given the previous neighbour of the others. NCCL allocates buffers per
// communicator, so groups are counted and not their sizes.
Communicators CommunicatorsOf(const ClusterSpec& cluster, const Plan& plan) {
  Communicators out;
  const auto node = [&](int rank) { return DeviceOf(plan, rank) / cluster.devices_per_node; };
  for (const GroupKind kind : kGroups) {
    if (!IsOwn(plan, kind)) continue;
    const std::vector<int> members = GroupMembers(plan, {}, kind);
    const bool ring_end =
        kind == GroupKind::kPrev && plan.pp > 1;  // ranks inside the pipeline have one
    if (members.size() < 2 && !ring_end) continue;
    ++out.all;
    // Members are ascending in each parallel dimension, so the first and last lie farthest apart.
    if (!members.empty() && node(members.front()) != node(members.back())) ++out.between_nodes;
  }
  if (plan.World() > 1) ++out.all;
  if (plan.World() > cluster.devices_per_node) ++out.between_nodes;
  return out;
}

// A system's own communicators span the world. They count as between nodes if the world does.
DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan,
                                const SystemOptions& system) {
  if (cluster.is_cpu) return {};
  const Communicators groups = CommunicatorsOf(cluster, plan);
  const bool far = plan.World() > cluster.devices_per_node;
  const std::int64_t more = plan.World() > 1 ? system.own_communicators : 0;
  const std::int64_t between_nodes = groups.between_nodes + (far ? more : 0);
  const std::int64_t within = groups.all - groups.between_nodes + (far ? 0 : more);
  return {
      .context = system.context_bytes > 0 ? system.context_bytes : kContextBytes,
      .communicators = within * kNodeCommunicatorBytes + between_nodes * kNetworkCommunicatorBytes,
      .workspaces = system.workspace_bytes,
      .profiler = system.profiled ? kProfilerBytes : 0,
      .driver = cluster.device.memory_bytes / kOfDriver};
}

std::int64_t GraphBytesOf(const ClusterSpec& cluster, const Program& program,
                          const RankProgram& rank, const SystemOptions& system) {
  if (cluster.is_cpu || !system.cuda_graphs) return 0;
  return OpsInGraphs(program, rank) * kGraphOpBytes;
}

bool IsReplayed(const SystemOptions& system) {
  return system.caching_allocator || system.logit_bytes > 0;
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
  const std::int64_t room =
      std::max<std::int64_t>(0, cluster.device.memory_bytes - out.outside.Total());
  SystemOptions holds = system;
  if (system.late_free_ops > 0 && !HostRunsAhead(model, plan, cluster, system)) {
    holds.late_free_ops = 0;
  }
  const ReservedMemory memory =
      ReservedPeak(model, plan, at, holds, std::max<std::int64_t>(1, room));
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

FullestDevice FullestDeviceOf(const ModelSpec& model, const Program& program,
                              std::span<const PeakMemory> tensors, const ClusterSpec& cluster,
                              const SystemOptions& system) {
  FT_CHECK(tensors.size() == program.ranks.size() && !tensors.empty());
  return FullestOf(tensors, program.plan.pp, system, [&](std::size_t r) {
    return DeviceUseOf(model, program, program.ranks[r], tensors[r].total, cluster, system);
  });
}

// The closed form gives the tensors of all stages; only the likely fullest are replayed.
FullestDevice FullestDeviceOf(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                              const SystemOptions& system) {
  std::vector<PeakMemory> tensors;
  for (int pp = 0; pp < plan.pp; ++pp) tensors.push_back(PlannedPeak(model, plan, {.pp = pp}));
  const auto use = [&](std::size_t pp) {
    return DeviceUseOf(model, plan, {.pp = static_cast<int>(pp)}, tensors[pp].total,
                       tensors[pp].total, cluster, system);
  };
  return FullestOf(tensors, plan.pp, system, use);
}

}  // namespace foretrain
