// Muon: the update of a matrix is its momentum, orthogonalized. Jordan et al. 2024; weight decay
// and the size of the update: Liu et al. 2025 (arXiv 2502.16982), s. 2.2.
#pragma once

#include "sim/program/lower/rank/skeleton.h"

namespace foretrain {

// Steps that update a bucket of matrices: the momentum of this rank's shard, its gather over the
// shards, and the update of the shard's parameters. A rank orthogonalizes each matrix of which it
// holds a part: matrices at borders of shards are computed by both sides, alike.
Skeleton MuonSteps(const LowerContext& context, int bucket);

}  // namespace foretrain
