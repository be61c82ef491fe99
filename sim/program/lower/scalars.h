// The numbers of a step that ranks add up and the host reads: loss and squared gradient norm.
#pragma once

#include <vector>

#include "sim/program/lower/rank_builder.h"

namespace foretrain {

// Parts of the keys of scalar reductions.
inline constexpr int kLossScalar = 0;
inline constexpr int kNormScalar = 1;
inline constexpr int kNotFiniteScalar = 2;

// Makes `here`, this rank's part, and `sum`, which is the same buffer where nothing is added up.
// Both are state, zero before the first step.
void MakeScalarPair(RankBuilder& rank, TensorKind here, TensorKind sum, bool reduced);

// Makes a scalar in pinned memory: state, zero before the first step.
void MakeScalarAway(RankBuilder& rank, TensorKind kind);

// Counts the step where it is skipped, behind the updates that read the count.
SkeletonStep SkipStep();

// What the loss's scale has become, where it changes.
inline std::vector<Binding> LossScaleOf(RankBuilder& rank) {
  if (!rank.Context().plan.HasDynamicScale()) return {};
  return {rank.Whole(rank.Tensors().At({TensorKind::kLossScale}))};
}

// Sums the scalar over the group: `here` -> `sum`.
void EmitScalarSum(RankBuilder& rank, const InstructionKey& key, const char* name, GroupKind group,
                   TensorKind here, TensorKind sum);

}  // namespace foretrain
