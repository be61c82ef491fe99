// Turns a skeleton into a rank's instructions, each by its step's rule. Leaves out order, lives and
// addresses: Link.
#pragma once

#include "sim/program/lower/block_registry.h"
#include "sim/program/lower/skeleton.h"
#include "sim/program/program.h"

namespace foretrain {

// `rank` has its coordinates; fills step, bindings, buffers, buckets and parameters.
void EmitRank(const LowerContext& context, const Skeleton& skeleton, BlockRegistry& blocks,
              RankProgram& rank);

}  // namespace foretrain
