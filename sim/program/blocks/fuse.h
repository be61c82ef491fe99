// Replaces ops of a block by ops that do the work of several in one kernel.
#pragma once

#include "sim/program/op.h"
#include "sim/spec/plan.h"

namespace foretrain {

// What `fusion` says, in a block whose passes have been taken apart. An op that is made of others
// `covers` them by name and runs in the place of the first.
//
//   norms      a residual sum and the norm behind it (kAddNormForward): the same bits. A sum whose
//              norm begins the next block stays apart.
//   epilogues  a product and what follows it: epilogues.h
void Fuse(Block& block, FusionKind fusion);

}  // namespace foretrain
