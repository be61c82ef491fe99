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

// Groups that rank 0 has a communicator for: tensor, context, expert and data parallelism, either
// neighbour in the pipeline, and the world's; and those of them that have ranks on several nodes.
struct Communicators {
  int all = 0;
  int between_nodes = 0;
};
Communicators CommunicatorsOf(const ClusterSpec& cluster, const Plan& plan);

//   cluster   none of it on CPUs, whose memory the host's allocator gives
//   own       groups that the system makes beside those, as large as the world
//   profiled  whether activities are recorded
//
// O(ranks); safe from any thread.
DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan, std::int64_t own,
                                bool profiled);

}  // namespace foretrain
