// Tells which part of a layer's forward its backward computes again.
#pragma once

#include <algorithm>

#include "sim/config/plan/plan.h"
#include "sim/program/lower/layout/stage.h"

namespace foretrain {

// Recomputation of a layer: plan.recompute for the first plan.recompute_layers of its stage, or for
// all layers if that is 0. Embedding and head recompute nothing.
inline RecomputeKind RecomputeOf(const Plan& plan, const Stage& stage, int block) {
  if (!IsLayer(stage.KindOf(block))) return RecomputeKind::kNone;
  const int before = block - std::max(stage.ChunkOf(block).first_block, 1);
  const bool recomputes = plan.recompute_layers == 0 || before < plan.recompute_layers;
  return recomputes ? plan.recompute : RecomputeKind::kNone;
}

}  // namespace foretrain
