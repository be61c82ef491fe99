// Fuses a GEMM with the op after it, using the epilogues of the device's GEMM library.
#pragma once

#include "sim/program/ir/op.h"

namespace foretrain {

// Fuses each GEMM of 16 bits or more with one later op:
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
void FuseEpilogues(Block& block);

}  // namespace foretrain
