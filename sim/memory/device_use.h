// All device memory that a rank takes, and whether it fits: the program's tensors, what the
// allocator adds, and what lies outside both. This is the one definition for predict, plan, fit,
// train and validate. Leaves out the program's tensors by category (peak_memory.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Device memory that a rank holds outside the program and its allocator. The values are published
// estimates unless a preset measured them; OverheadEntries() names their sources.
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

struct DeviceUse {
  std::int64_t tensors = 0;  // peak of the program's live tensors
  std::int64_t held = 0;     // also needed: gaps of the arena, tensors that eager kernels keep
  std::int64_t cached = 0;   // segments that the allocator caches and no tensor needs
  DeviceOverhead outside;

  // Bytes without which the plan fails.
  std::int64_t Needed() const { return tensors + held + outside.Total(); }
  std::int64_t Total() const { return Needed() + cached; }
};

// Device memory of the rank at `at`.
//
//   tensors  peak bytes of its live tensors
//   arena    bytes of its arena; used only if the system has no caching allocator
//
// `cached` never makes a plan fail. A caching allocator without room gives back free segments and
// tries again before it fails (PyTorch, CUDACachingAllocator.cpp: release_cached_blocks). Gaps
// depend on the lifetimes of Python variables, which a program does not have. So `cached` is the
// modelled reservation less blocks in use, cut to the room that the device has left. This is too
// lenient for runs that fail by fragmentation alone.
//
// O(ops) with a caching allocator, else as DeviceOverheadOf; safe from any thread.
DeviceUse DeviceUseOf(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                      std::int64_t tensors, std::int64_t arena, const ClusterSpec& cluster,
                      const SystemOptions& system);
DeviceUse DeviceUseOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                      std::int64_t tensors, const ClusterSpec& cluster,
                      const SystemOptions& system);

// True if the system's allocator or eager kernels make the need differ from the program's arena.
bool IsReplayed(const SystemOptions& system);

bool Fits(const DeviceUse& use, const ClusterSpec& cluster);

// The fullest device of a plan, by its need. With a caching allocator and more than 4 stages, only
// three are examined: the first, the last and the one with the largest tensors.
struct FullestDevice {
  std::size_t index = 0;  // in Program::ranks; the stage if the plan is not compiled
  DeviceUse memory;
};

// `tensors`: peaks of the linked program's ranks, in their order.
FullestDevice FullestDeviceOf(const ModelSpec& model, const Program& program,
                              std::span<const PeakMemory> tensors, const ClusterSpec& cluster,
                              const SystemOptions& system);

// The same for a valid plan that is not compiled. The arena is assumed to have no gaps.
FullestDevice FullestDeviceOf(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                              const SystemOptions& system);

}  // namespace foretrain
