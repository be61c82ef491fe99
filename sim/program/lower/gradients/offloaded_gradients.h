// Gradient offload: steps that move a micro-batch's gradients off the device as soon as they are
// reduced, and helpers for strategies that read offloaded sums.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {

// Copies a bucket's gradients of one micro-batch to pinned memory: those of the first one into the
// sum, others into a buffer that GradientsAddStep adds.
SkeletonStep GradientsOutStep(const BucketCompletion& done, int block);
// The host's processors add the gradients that have arrived to the sum.
SkeletonStep GradientsAddStep(const BucketCompletion& done, int block);

// All-reduces `range` of the accumulated gradients in place, on the device or offloaded.
StepDescription GradientSum(const Plan& plan, CollectiveSpec spec, const TensorUse& range);

// A number computed from ranges of gradients.
struct ScalarOfRanges {
  const char* name;
  // `offloaded`: the ranges are offloaded.
  Block (*block)(const std::vector<std::int64_t>& range_elements, NumberFormat format,
                 bool offloaded);
  TensorKind made;  // written by the host's processors, if the ranges are offloaded
  TensorKind here;  // the number on the device
};
StepDescription GradientScalar(const Plan& plan, const ScalarOfRanges& scalar,
                               std::vector<TensorUse> ranges);

}  // namespace foretrain
