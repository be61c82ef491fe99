// Numbers of a step that ranks add up and the host reads: the loss, the squared gradient norm, and
// the count of gradients that are not finite.
#pragma once

#include <vector>

#include "sim/program/lower/rank/rank_builder.h"
#include "sim/program/lower/rank/step_description.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {

// Parts of the keys of scalar reductions.
inline constexpr int kLossScalar = 0;
inline constexpr int kNormScalar = 1;
inline constexpr int kNotFiniteScalar = 2;

// Makes `here`, this rank's part, and `sum`. Both are the same buffer unless `reduced`. Both are
// state, zero before the first step.
void MakeScalarPair(RankBuilder& rank, TensorKind here, TensorKind sum, bool reduced);

// Makes a scalar in pinned memory: state, zero before the first step.
void MakeOffloadedScalar(RankBuilder& rank, TensorKind kind);

// Counts the step if it is skipped, after the updates that read the count.
SkeletonStep SkipStep();

// Appends the loss scale of this step, if the scale is dynamic.
void AddLossScale(const Plan& plan, std::vector<TensorUse>& uses);

// All-reduces one number over the group, from `here` to `sum`.
StepDescription ScalarSum(const char* name, GroupKind group, TensorKind here, TensorKind sum);

}  // namespace foretrain
