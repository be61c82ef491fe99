// Steps that reduce gradients over data parallelism.
#pragma once

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Steps that reduce a bucket once it holds all micro-batches: an all-reduce over dp or, if the
// optimizer is sharded, a reduce-scatter and then an all-reduce over the shard's replicas.
Skeleton ReductionSteps(const LowerContext& context, int bucket);

// All-reduce of this rank's shard over its replicas.
SkeletonStep ReplicaStep(int bucket);

}  // namespace foretrain
