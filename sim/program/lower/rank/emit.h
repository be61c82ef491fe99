// Turns a skeleton into a rank's instructions, each by its step's rule. Link adds op numbers,
// lifetimes and addresses.
#pragma once

#include "sim/program/ir/program.h"
#include "sim/program/lower/rank/block_registry.h"
#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// `rank` has its coordinates. Fills its step, bindings, buffers, buckets and parameters.
void EmitRank(const LowerContext& context, const Skeleton& skeleton, BlockRegistry& blocks,
              RankProgram& rank);

}  // namespace foretrain
