// Replaces ops of a block by ops that do the work of several in one kernel.
#pragma once

#include "sim/program/op.h"

namespace foretrain {

// A residual sum and the norm behind it become one op, which `covers` both and computes the same
// bits. Left out, because they gain nothing that can be measured (docs/performance.md): a sum whose
// norm begins the next block, and a GEMM with its activation.
void Fuse(Block& block);

}  // namespace foretrain
