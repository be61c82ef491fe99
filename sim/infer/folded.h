// Tells the schedules apart whose second chunk of layers runs back to the first rank: ZB-V and
// DualPipeV. Both have as many forwards before the first backward; they differ in what follows.
#pragma once

#include <vector>

#include "sim/infer/order.h"
#include "sim/infer/traced_step.h"

namespace foretrain {

// Compares, at the start of each backward, the number of forwards that ran with that of both
// schedules. Without a value if neither is clearly nearer.
//
//   pipelines      ranks of each pipeline by stage
//   micro_batches  >= 1
//
// O(ops of the step).
InferredFact FoldedScheduleOf(const TracedStep& step,
                              const std::vector<std::vector<int>>& pipelines,
                              std::int64_t micro_batches);

}  // namespace foretrain
