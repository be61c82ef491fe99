// The figure of memory that a source states for a run: of which rank, and of what; and whether the
// run fits its devices. Leaves out the program's own memory (sim/memory).
#pragma once

#include <cstdint>

#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

struct StatedMemory {
  std::int64_t stated = 0;  // as the system's source counts it
  bool fits = false;        // as DeviceUse counts it, of the fullest rank
};

// Of a valid plan. Without a caching allocator the tensors stand for what it holds. O(ops of 2 pp
// micro-batches of the stages that FullestStageOf looks at).
StatedMemory StatedMemoryOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster);

}  // namespace foretrain
