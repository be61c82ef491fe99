// Gradients that leave the device as soon as those of a micro-batch are summed: the steps, and what
// other strategies do to sums that lie away.
#pragma once

#include <cstdint>

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// Takes a bucket's gradients of one micro-batch off the device: the first one's to where the sum
// lies, others to be added by GradientsAddStep.
SkeletonStep GradientsOutStep(const BucketCompletion& done, int block);
// The host's processors add what has come to the sum.
SkeletonStep GradientsAddStep(const BucketCompletion& done, int block);

// All-reduces `range` of what micro-batches add up to, in place, wherever it lies.
void AddGradientSum(RankBuilder& rank, const InstructionKey& key, CollectiveSpec spec,
                    const Binding& range);
// Device memory that this takes.
StepMemory GradientSumMemory(const Plan& plan, std::int64_t elements);

// A scalar over all ranges of gradients: `make` gets whether they lie away; `made` is where the
// host's processors then leave what is copied to `here`.
void AddGradientScalar(RankBuilder& rank, const InstructionKey& key, const char* name,
                       std::vector<Binding> ranges,
                       Block (*make)(const std::vector<std::int64_t>& range_elements,
                                     NumberFormat format, bool away),
                       TensorKind made, TensorKind here);

}  // namespace foretrain
