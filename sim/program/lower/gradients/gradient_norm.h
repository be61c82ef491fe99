// Selects the gradients that a rank counts into the global norm.
#pragma once

#include <vector>

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Elements of the bucket whose squares this rank adds: its shard, less the parts that another rank
// of the group counts. Ascending, with gaps; empty for frozen buckets.
std::vector<ShardRange> CountedGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
