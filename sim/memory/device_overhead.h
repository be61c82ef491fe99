// What a rank holds of its device outside the program and its allocator: the context, buffers of
// communicators, workspaces of libraries, a profiler's buffers. Estimates of published behaviour
// until a device is measured.
#pragma once

#include <cstdint>

#include "sim/spec/cluster_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct DeviceOverhead {
  std::int64_t context = 0;        // of the driver: code, stacks, queues
  std::int64_t communicators = 0;  // NCCL's buffers, of all groups that a rank is in
  std::int64_t workspaces = 0;     // cuBLAS, one a queue that computes
  std::int64_t profiler = 0;       // CUPTI's activity buffers

  std::int64_t Total() const { return context + communicators + workspaces + profiler; }
};

// Groups that a rank has a communicator for: tensor, context, expert and data parallelism, either
// neighbour in the pipeline, and the world's.
int CommunicatorsOf(const Plan& plan);

//   device    none of it on CPUs, whose memory the host's allocator gives
//   profiled  whether activities are recorded
//
// O(1); safe from any thread.
DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan, bool profiled);

}  // namespace foretrain
