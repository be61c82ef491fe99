// Steps at the ends of a stage: loads of batches, and transfers of activations and their gradients
// between pipeline neighbours.
#pragma once

#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// The boundary tensor of a stage: the activation that it sends on in a forward, its gradient in any
// other pass.
TensorShape BoundaryShape(const ModelSpec& model, const Plan& plan, Pass pass);
// Token ids or targets of one micro-batch on this rank.
TensorShape BatchShape(const Plan& plan);

// Loads token ids for the model's first chunk, targets for its last one.
SkeletonStep LoadStep(const Stage& stage, const Chunk& chunk, int micro_batch);

// `pass`: kForward for activations, kBackward for gradients. `block`: the block that makes the
// tensor. `down`: true from a rank to the next one, false to the previous one.
SkeletonStep SendStep(Pass pass, int block, int micro_batch, bool down);
SkeletonStep RecvStep(Pass pass, int block, int micro_batch, bool down);

}  // namespace foretrain
