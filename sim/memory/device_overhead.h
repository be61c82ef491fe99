// Device memory that a rank holds outside the program and its allocator: context, communicator
// buffers, library workspaces, profiler buffers, and the driver's share. The values are published
// estimates unless a preset measured them; OverheadEntries() names their sources.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"
#include "sim/program/ir/program.h"

namespace foretrain {

struct DeviceOverhead {
  std::int64_t context = 0;        // CUDA context of the process: code, stacks, queues
  std::int64_t communicators = 0;  // NCCL's buffers, for all groups of the rank
  std::int64_t workspaces = 0;     // cuBLAS, one per queue that computes
  std::int64_t profiler = 0;       // CUPTI's buffers on the device
  std::int64_t graphs = 0;         // instantiated CUDA graphs (GraphBytesOf)
  std::int64_t driver = 0;         // reserved by the driver; no process gets it

  // Bytes that nvidia-smi shows for the process besides the allocator's segments.
  std::int64_t OfProcess() const {
    return context + communicators + workspaces + profiler + graphs;
  }
  std::int64_t Total() const { return OfProcess() + driver; }
  bool operator==(const DeviceOverhead&) const = default;
};

// A member of DeviceOverhead with its label and the source of its value.
struct OverheadEntry {
  std::string_view name;  // "device context"
  std::int64_t DeviceOverhead::*bytes = nullptr;
  std::string_view source;
};
inline constexpr int kOverheadEntries = 6;
const std::array<OverheadEntry, kOverheadEntries>& OverheadEntries();

// Counts of communicators that rank 0 has: one per group of tensor, context, expert and data
// parallelism. HSDP adds its two halves and experts their holders. Each pipeline neighbour and the
// world have one as well.
struct Communicators {
  int all = 0;
  int between_nodes = 0;  // of them, groups with ranks on several nodes
};
Communicators CommunicatorsOf(const ClusterSpec& cluster, const Plan& plan);

// Overhead of a rank, without graphs, which depend on the program.
//
//   cluster  all values are 0 on CPUs, whose memory comes from the host's allocator
//   system   number of its own communicators over the world, its measured context (0: unknown), and
//            whether it is profiled
//
// O(ranks of the largest group); safe from any thread.
DeviceOverhead DeviceOverheadOf(const ClusterSpec& cluster, const Plan& plan,
                                const SystemOptions& system);

// Bytes of a rank's CUDA graphs, at 10 KB per op in a graph; 0 if the system uses none. O(ops log
// edges).
std::int64_t GraphBytesOf(const ClusterSpec& cluster, const Program& program,
                          const RankProgram& rank, const SystemOptions& system);

}  // namespace foretrain
