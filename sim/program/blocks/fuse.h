// Replaces several ops of a block by one op that does their work in one kernel.
#pragma once

#include "sim/config/plan/plan.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Applies `fusion` to a block of one pass. The head's block fuses the loss itself (FusesLoss). A
// fused op `covers` the originals by name and runs at the first one's position, or at the GEMM's.
//
//   norms      a residual sum and the norm after it (kAddNormForward), with the same bits. A sum
//              whose norm begins the next block is not fused.
//   epilogues  a GEMM of 16 bits or more and one later op, in an epilogue of the device's GEMM
//              library:
//
//   gelu_forward of its output    kGemmActivation; kGemmActivationKept if another op or a later
//                                 pass reads the output too
//   gelu_backward of it           kGemmActivationBackward, if nothing else reads the output, which
//                                 is then never stored
//   bias_grad of its left side    kGemmBiasGrad, also if both accumulate
//
// The op moves up to the GEMM: ops between them may neither write what it reads nor touch what it
// writes. Not fused: outputs that are reduced over ranks or added to first (tensor parallelism,
// adapters), and ops that read casts. In fp32 the bits equal those of two ops if the device runs
// the epilogue as a kernel. In 16 bits the function is applied to the fp32 result, which two ops
// would have rounded first.
void Fuse(Block& block, FusionKind fusion);

}  // namespace foretrain
