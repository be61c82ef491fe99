// Which gradients a rank counts into the global norm.
#pragma once

#include <vector>

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// The elements of the bucket whose squares this rank adds: its shard, less what another rank of the
// group counts. Ascending, with gaps between them.
std::vector<ShardRange> CountedGradients(const LowerContext& context, int bucket);

}  // namespace foretrain
