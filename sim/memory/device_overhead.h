// What a rank holds of its device outside the program and its allocator: the context, buffers of
// communicators, workspaces of libraries, a profiler's buffers, and what the driver keeps of every
// device. Estimates of published behaviour until a device is measured; OverheadEntries() says
// whose.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/program/program.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

struct DeviceOverhead {
  std::int64_t context = 0;        // of the driver for a process: code, stacks, queues
  std::int64_t communicators = 0;  // NCCL's buffers, of all groups that a rank is in
  std::int64_t workspaces = 0;     // cuBLAS, one a queue that computes
  std::int64_t profiler = 0;       // CUPTI's buffers on the device
  std::int64_t graphs = 0;         // CUDA graphs that are kept to be launched (GraphBytesOf)
  std::int64_t driver = 0;         // of the device's memory, that no process gets

  // Of the process: what nvidia-smi shows beside the allocator's segments.
  std::int64_t OfProcess() const {
    return context + communicators + workspaces + profiler + graphs;
  }
  std::int64_t Total() const { return OfProcess() + driver; }
  bool operator==(const DeviceOverhead&) const = default;
};

// The members of DeviceOverhead as they are shown, each with where its figure comes from.
struct OverheadEntry {
  std::string_view name;  // "device context"
  std::int64_t DeviceOverhead::*bytes = nullptr;
  std::string_view source;
};
inline constexpr int kOverheadEntries = 6;
const std::array<OverheadEntry, kOverheadEntries>& OverheadEntries();

// Groups that rank 0 has a communicator for: tensor, context, expert and data parallelism (with
// HSDP its two halves, with experts those that hold the same ones), either neighbour in the
// pipeline, and the world; and those of them that have ranks on several nodes.
struct Communicators {
  int all = 0;
  int between_nodes = 0;
};
Communicators CommunicatorsOf(const ClusterSpec& cluster, const Plan& plan);

//   cluster  none of it on CPUs, whose memory the host's allocator gives
//   system   its own communicators, as large as the world, its context where it is known, and
//            whether it is profiled
//
// Without graphs, which are of a program. O(ranks of the largest group); safe from any thread.
DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan,
                                const SystemOptions& system);

// What a rank's CUDA graphs hold where the system has them: 10 KB for each op in one. O(ops log
// edges).
std::int64_t GraphBytesOf(const ClusterSpec& cluster, const Program& program,
                          const RankProgram& rank, const SystemOptions& system);

}  // namespace foretrain
