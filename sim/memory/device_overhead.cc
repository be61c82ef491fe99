#include "sim/memory/device_overhead.h"

#include "base/units.h"

namespace foretrain {
namespace {

// Of a process that uses CUDA and cuBLAS: BigScience's notes on V100 (tests/data/validation).
constexpr double kContextGib = 1.1;
// NCCL: 16 channels, of which each has 4 MiB of buffers a direction and peer, and the LL and LL128
// protocols as much again: 16 x 2 x 4 x 2 MiB.
constexpr double kCommunicatorGib = 0.25;
// PyTorch's CUDA semantics, "cuBLAS workspaces": 32 MiB a handle and stream on Hopper; fewer before.
constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
// CUPTI: buffers of 8 MiB, of which two are filled while others are read (profiler/cuda).
constexpr std::int64_t kProfilerBytes = std::int64_t{64} << 20;

}  // namespace

int CommunicatorsOf(const Plan& plan) {
  const int neighbours = plan.pp > 1 ? 2 : 0;
  return 1 + neighbours + (plan.tp > 1 ? 1 : 0) + (plan.cp > 1 ? 1 : 0) + (plan.ep > 1 ? 1 : 0) +
         (plan.DataParallel() > 1 ? 1 : 0);
}

DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan, bool profiled) {
  if (cluster.is_cpu) return {};
  const auto bytes = [](double gib) {
    return static_cast<std::int64_t>(gib * static_cast<double>(kGiB));
  };
  const int groups = plan.World() > 1 ? CommunicatorsOf(plan) : 0;
  return {.context = bytes(kContextGib),
          .communicators = groups * bytes(kCommunicatorGib),
          .workspaces = kWorkspaceBytes,
          .profiler = profiled ? kProfilerBytes : 0};
}

}  // namespace foretrain
