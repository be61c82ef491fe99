// What enters and leaves a stage as steps: batches from the loader, activations and their gradients
// from and to the neighbours in the pipeline.
#pragma once

#include "sim/program/lower/skeleton.h"

namespace foretrain {

// Token ids for a first stage, targets for a last one.
SkeletonStep LoadStep(const Stage& stage, int micro_batch);

// `pass`: kForward for activations, to the next stage; kBackward for gradients, to the previous.
// `block`: whose tensor it is, the block that makes it.
SkeletonStep SendStep(Pass pass, int block, int micro_batch);
SkeletonStep RecvStep(Pass pass, int block, int micro_batch);

}  // namespace foretrain
