// Host memory and disk that a rank takes: pinned and pageable buffers of the program, allocator
// rounding, the process, and weights during loading; and the bytes that copies move there and back.
// Leaves out page caches and data-loader workers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/system_options.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Bytes of one rank.
struct HostMemory {
  std::int64_t pinned = 0;    // peak of the program's live pinned buffers
  std::int64_t rounding = 0;  // taken by their allocator in addition
  std::int64_t pageable = 0;  // arena of pageable buffers, gaps included
  std::int64_t process = 0;   // interpreter, libraries and the driver's mappings
  std::int64_t profiler = 0;  // spans of one step that are not written yet
  std::int64_t state = 0;     // part of pinned and pageable that lives for the whole run
  std::int64_t loading = 0;   // in addition to process and state while weights are loaded
  std::int64_t disk = 0;      // NVMe
  bool loads_once = false;    // one process per node holds `loading`, not each rank

  // Host memory during a step, and while weights are loaded.
  std::int64_t InStep() const { return pinned + rounding + pageable + process + profiler; }
  std::int64_t WhileLoading() const { return process + state + loading; }
};

// A member of HostMemory with its label, JSON key and the source of its value.
struct HostEntry {
  std::string_view name;  // "pinned buffers"
  std::string_view key;   // "pinned_gib"
  std::int64_t HostMemory::*bytes = nullptr;
  bool in_step = true;  // part of InStep
  std::string_view source;
};
inline constexpr int kHostEntries = 7;
const std::array<HostEntry, kHostEntries>& HostEntries();

// Host memory of a rank of a linked program.
//
//   cluster  on CPUs, ranks are threads of one process, which is not counted; the file of weights
//            is read as a whole.
//   system   allocator of pinned memory, order of loading, whether spans are recorded.
//
// Loading takes the rank's own state without gradients (LoadOrder::kShard), or else the whole model
// in the activation format. O(buffers + ops); safe from any thread.
HostMemory HostMemoryOf(const ModelSpec& model, const Program& program, const RankProgram& rank,
                        const ClusterSpec& cluster, const SystemOptions& system);

// Memory of `ranks` >= 1 equal ranks of one node.
struct NodeMemory {
  std::int64_t in_step = 0;
  std::int64_t while_loading = 0;

  std::int64_t Peak() const { return in_step > while_loading ? in_step : while_loading; }
};
NodeMemory NodeMemoryOf(const HostMemory& rank, int ranks);

// Bytes that the copies of one step move, by route. Leaves out loads of batches and communication.
struct CopiedBytes {
  std::int64_t to_device = 0;
  std::int64_t from_device = 0;
  std::int64_t read = 0;     // from NVMe
  std::int64_t written = 0;  // to NVMe
};

// Copies of one rank of a linked program in one step. Each copy counts its bytes once per end.
// O(ops).
CopiedBytes CopiedBytesOf(const Program& program, const RankProgram& rank);

// Bytes of host memory that one rank may use for offloaded state and activations: its share of the
// node less its process. 0: unknown, or CPUs, whose devices use that memory themselves.
std::int64_t HostShareOf(const ClusterSpec& cluster, const SystemOptions& system);

}  // namespace foretrain
