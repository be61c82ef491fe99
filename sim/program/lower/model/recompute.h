// Tells which part of a layer's forward its backward computes again.
#pragma once

#include <algorithm>

#include "sim/config/plan/plan.h"
#include "sim/program/lower/layout/stage.h"

namespace foretrain {

// Recomputation of a layer: plan.recompute for every plan.recompute_every-th layer among the first
// plan.recompute_layers of its stage, or among all if that is 0. With every 2, these are the
// second, the fourth and so on. Embedding and head recompute nothing.
inline RecomputeKind RecomputeOf(const Plan& plan, const Stage& stage, int block) {
  if (!IsLayer(stage.KindOf(block))) return RecomputeKind::kNone;
  const int before = block - std::max(stage.ChunkOf(block).first_block, 1);
  const bool recomputes = (plan.recompute_layers == 0 || before < plan.recompute_layers) &&
                          (before + 1) % plan.recompute_every == 0;
  return recomputes ? plan.recompute : RecomputeKind::kNone;
}

}  // namespace foretrain
