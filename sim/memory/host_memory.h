// What a rank takes of its host's memory and disk: pinned and pageable buffers of the program, what
// their allocator adds, the process, and weights on their way to the device. Leaves out page caches
// and workers that read data.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/program/program.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/system_options.h"

namespace foretrain {

// Of one rank, in bytes.
struct HostMemory {
  std::int64_t pinned = 0;    // buffers of the program, live at their peak
  std::int64_t rounding = 0;  // what their allocator holds beside them
  std::int64_t pageable = 0;  // likewise, with its gaps
  std::int64_t process = 0;   // interpreter, libraries and what the driver maps
  std::int64_t profiler = 0;  // spans of a step that are not written yet
  std::int64_t state = 0;     // of pinned and pageable what lives for the whole run
  std::int64_t loading = 0;   // beside process and state while weights or a checkpoint load
  std::int64_t disk = 0;      // NVMe
  bool loads_once = false;    // `loading` is of one process of a node, not of each rank

  // Of memory: in a step, and while weights load.
  std::int64_t InStep() const { return pinned + rounding + pageable + process + profiler; }
  std::int64_t WhileLoading() const { return process + state + loading; }
};

// The members of HostMemory as they are shown, each with where its figure comes from. `in_step`:
// part of InStep.
struct HostEntry {
  std::string_view name;  // "pinned buffers"
  std::string_view key;   // "pinned_gib"
  std::int64_t HostMemory::*bytes = nullptr;
  bool in_step = true;
  std::string_view source;
};
inline constexpr int kHostEntries = 7;
const std::array<HostEntry, kHostEntries>& HostEntries();

// Of a rank of a linked program.
//
//   cluster  on CPUs the ranks are threads of one process, which is not counted, and a file of
//            weights is read as a whole
//   system   how pinned memory is served, how weights are loaded, whether spans are recorded
//
// Loading is the rank's own state but gradients (LoadOrder::kShard) or the whole model in the format
// of its weights. O(buffers + ops); safe from any thread.
HostMemory HostMemoryOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                        const ClusterSpec& cluster, const SystemOptions& system);

// What `ranks` >= 1 ranks of one node take together, each as much as `rank`.
struct NodeMemory {
  std::int64_t in_step = 0;
  std::int64_t while_loading = 0;

  std::int64_t Peak() const { return in_step > while_loading ? in_step : while_loading; }
};
NodeMemory NodeMemoryOf(const HostMemory& rank, int ranks);

// Bytes that one rank may have of its node's memory for state and activations off its device: its
// share, less its process; 0: unknown, or CPUs, whose devices lie in that memory.
std::int64_t HostShareOf(const ClusterSpec& cluster, const SystemOptions& system);

}  // namespace foretrain
