#include "sim/memory/device_overhead.h"

#include <vector>

#include "base/units.h"
#include "sim/program/groups.h"

namespace foretrain {
namespace {

// Of a process that uses CUDA and cuBLAS: BigScience's notes on V100 (tests/data/validation).
constexpr double kContextGib = 1.1;
// NCCL within a node: 16 channels, of which each has 4 MiB of buffers a direction and peer, and the LL
// and LL128 protocols as much again: 16 x 2 x 4 x 2 MiB. Between nodes: 544 MB a group as measured
// in nccl issue 964 (688 MB with other settings; issue 864 has 1.6 GB for one).
constexpr double kNodeCommunicatorGib = 0.25;
constexpr double kNetworkCommunicatorGib = 544e6 / (1 << 30);
// PyTorch's CUDA semantics, "cuBLAS workspaces": 32 MiB a handle and stream on Hopper; fewer before.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
// CUPTI: buffers of 8 MiB, of which two are filled while others are read (profiler/cuda).
constexpr std::int64_t kProfilerBytes = std::int64_t{64} << 20;

}  // namespace

Communicators CommunicatorsOf(const ClusterSpec& cluster, const Plan& plan) {
  Communicators out;
  for (const GroupKind kind : {GroupKind::kTp, GroupKind::kCp, GroupKind::kEp, GroupKind::kDp,
                               GroupKind::kNext, GroupKind::kPrev, GroupKind::kWorld}) {
    const std::vector<int> members = GroupMembers(plan, {}, kind);
    const bool ring_end = kind == GroupKind::kPrev && plan.pp > 1;  // others have one
    if (members.size() < 2 && !ring_end) continue;
    ++out.all;
    const auto node = [&](int rank) { return rank / cluster.devices_per_node; };
    const bool far = !members.empty() && node(members.front()) != node(members.back());
    if (far) ++out.between_nodes;
  }
  return out;
}

DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan, std::int64_t own,
                                bool profiled) {
  if (cluster.is_cpu) return {};
  const auto bytes = [](double gib) {
    return static_cast<std::int64_t>(gib * static_cast<double>(kGiB));
  };
  const Communicators groups = CommunicatorsOf(cluster, plan);
  const bool far = plan.World() > cluster.devices_per_node;
  const std::int64_t more = plan.World() > 1 ? own : 0;
  const std::int64_t between_nodes = groups.between_nodes + (far ? more : 0);
  const std::int64_t within = groups.all - groups.between_nodes + (far ? 0 : more);
  return {.context = bytes(kContextGib),
          .communicators = within * bytes(kNodeCommunicatorGib) +
                           between_nodes * bytes(kNetworkCommunicatorGib),
          .workspaces = kWorkspaceBytes,
          .profiler = profiled ? kProfilerBytes : 0};
}

}  // namespace foretrain
