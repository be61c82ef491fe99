// What a checkpoint costs: bytes, the time for which training stands still, and the time of writing
// beside it. The closed form of runtime/checkpoint; leaves out scalars and padding.
#pragma once

#include <cstdint>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {

struct CheckpointCost {
  std::int64_t bytes = 0;  // of all ranks
  double copy_s = 0;       // to host memory, while training stands still
  double write_s = 0;      // to disk, beside training
};

// Trained parameters are saved as fp32 masters or in the format of the weights, with the moments of
// the optimizer, each by one rank. `is_cpu`: ranks are threads of one process on the CPU, which
// copies their state one after the other; else each copies its own from its device. Ranks write at
// once, each at its share of the disk's rate.
CheckpointCost CheckpointCostOf(const ModelSpec& model, const Plan& plan,
                                const DeviceProfile& profile, bool is_cpu);

}  // namespace foretrain
