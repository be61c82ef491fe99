// Finds the part that each of several equally fast plans depends most on, compared with the others.
// A forecast cannot rank such plans, so trying plans with different dependencies spreads the risk
// of its errors.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/search/search.h"

namespace foretrain {

// Sets `depends_most_on` of the plans marked `tied`, for example "computing: 31 % of the step" or
// "memory: 78.2 GiB of 80 GiB". The part is the one in which the plan exceeds the minimum over the
// tied plans most. Each part is named at most once, by the fastest plan; `depends_most_on` stays
// empty if every remaining part is within two percentage points of the minimum, or if fewer than
// two plans are tied.
//   plans         fastest first, `tied` set
//   memory_bytes  of a device, > 0
// O(tied plans^2).
void MarkDependencies(std::vector<RankedPlan>& plans, std::int64_t memory_bytes);

}  // namespace foretrain
