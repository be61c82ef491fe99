// What enters and leaves a stage as steps: batches from the loader, activations and their gradients
// from and to the neighbours in the pipeline.
#pragma once

#include "sim/program/lower/skeleton.h"

namespace foretrain {

// Token ids for the first chunk of the model, targets for the last.
SkeletonStep LoadStep(const Stage& stage, const Chunk& chunk, int micro_batch);

// `pass`: kForward for activations, kBackward for gradients. `block`: whose tensor it is, the block
// that makes it. `down`: it goes from a rank to the next one, else to the previous one.
SkeletonStep SendStep(Pass pass, int block, int micro_batch, bool down);
SkeletonStep RecvStep(Pass pass, int block, int micro_batch, bool down);

}  // namespace foretrain
