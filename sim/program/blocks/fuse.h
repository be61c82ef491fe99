// Replaces several ops of a block by one op that does their work in one kernel.
#pragma once

#include "sim/config/plan/plan.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Applies `fusion` to a block of one pass. A fused op `covers` the originals by name and runs at
// the first one's position, or at the GEMM's.
//
//   norms      a residual sum and the norm after it (kAddNormForward), with the same bits. A sum
//              whose norm begins the next block is not fused.
//   epilogues  a GEMM and the op that follows it: epilogues.h
void Fuse(Block& block, FusionKind fusion);

}  // namespace foretrain
