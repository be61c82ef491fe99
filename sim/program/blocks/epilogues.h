// Joins a product with what follows it in a block: the epilogues of the device's GEMM.
#pragma once

#include "sim/program/op.h"

namespace foretrain {

// Of a GEMM that overwrites its output, in 16 bits or more, and an op behind it:
//
//   gelu_forward of its output    kGemmActivation; kGemmActivationKept where more ops than this one
//                                 read the output, or a later pass does
//   gelu_backward of it           kGemmActivationBackward, where nothing else reads the output:
//                                 it exists nowhere
//   bias_grad of its left side    kGemmBiasGrad, of a product that adds too
//
// The op moves up to the product: ops between them may neither write what it reads nor touch what
// it writes. Products whose output is summed over ranks or added to first (tensor parallelism,
// adapters) and ops that read casts stay apart. Of fp32 the bits are those of two ops on a device
// whose epilogue is its kernel; of 16 bits f is taken of the fp32 number, which otherwise is
// rounded before.
void FuseEpilogues(Block& block);

}  // namespace foretrain
