// Sums of gradients over data parallelism as steps.
#pragma once

#include "sim/program/lower/skeleton.h"

namespace foretrain {

// The sum of a bucket that holds all micro-batches, at the end of the step's backward: over all of
// dp, or to each rank its shard where moments are sharded, and then over the shard's replicas.
Skeleton ReductionSteps(const LowerContext& context, int bucket);

// The sum of this rank's shard over its replicas.
SkeletonStep ReplicaStep(int bucket);

}  // namespace foretrain
