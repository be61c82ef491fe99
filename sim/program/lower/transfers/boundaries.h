// Steps at the ends of a stage: loads of batches, and transfers of activations and their gradients
// between pipeline neighbours.
#pragma once

#include "sim/program/lower/rank/skeleton.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// The boundary tensor of a stage: the activation that it sends on in a forward, its gradient in any
// other pass.
TensorShape BoundaryShape(const ModelSpec& model, const Plan& plan, Pass pass);
// Token ids, targets or document starts of one micro-batch on this rank.
TensorShape BatchShape(const Plan& plan);
// Document starts of a micro-batch for the chunk of `block`. Chunks of a rank run at different
// times, so each loads its own.
TensorName DocumentStartsName(const Stage& stage, int block, int micro_batch);

// Whether a chunk loads anything for a forward.
bool LoadsBatch(const Plan& plan, const Stage& stage, const Chunk& chunk);
// Loads token ids for the model's first chunk, targets for its last one, and document starts for
// all chunks if the plan has documents.
SkeletonStep LoadStep(const Stage& stage, const Chunk& chunk, int micro_batch);

// `pass`: kForward for activations, kBackward for gradients. `block`: the block that makes the
// tensor. `down`: true from a rank to the next one, false to the previous one.
SkeletonStep SendStep(Pass pass, int block, int micro_batch, bool down);
SkeletonStep RecvStep(Pass pass, int block, int micro_batch, bool down);

}  // namespace foretrain
