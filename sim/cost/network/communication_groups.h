// Groups of ranks that communicate, per queue, for traces/metrics/skew.h.
#pragma once

#include "sim/config/plan/plan.h"
#include "traces/metrics/skew.h"

namespace foretrain {

// Groups of tensor, context, expert and data parallelism and of the pipeline. If one queue serves
// groups of several kinds (HSDP, or DualPipe's stages on two ranks), its groups are unknown. `plan`
// must be valid. O(ranks times group).
CommunicationGroups CommunicationGroupsOf(const Plan& plan);

}  // namespace foretrain
