// Sums of whole gradients over data parallelism as steps.
#pragma once

#include "sim/program/lower/skeleton.h"

namespace foretrain {

// The sum of a bucket over dp, at the end of the step's backward: all of it, or each rank its shard
// where moments are sharded.
SkeletonStep ReductionStep(const LowerContext& context, int bucket);

}  // namespace foretrain
