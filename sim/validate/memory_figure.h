// Memory of a published run: the value that its source would state, and whether the run fits its
// devices. sim/memory computes the program's own memory.
#pragma once

#include <cstdint>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"

namespace foretrain {

struct StatedMemory {
  std::int64_t stated = 0;  // bytes, on the rank and with the parts that the source counts
  bool fits = false;        // by DeviceUse of the fullest rank
};

// Memory of a valid plan. Without a caching allocator, the tensors represent what it holds. O(ops
// of 2 pp micro-batches of the stages that FullestDeviceOf examines).
StatedMemory StatedMemoryOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster);

}  // namespace foretrain
