// Describes copies of offloaded activations, for the lowering and for the search's prices.
#pragma once

#include "sim/program/lower/model/block_memory.h"
#include "sim/program/lower/rank/step_description.h"

namespace foretrain {

// The instruction of `key` copies all kept tensors of a layer over one hop, and frees the source.
// Its kind is kCopyOut, kNvmeWrite, kNvmeRead or kCopyIn. `passes` returns the layer's passes.
StepDescription ActivationCopy(const LowerContext& context, const InstructionKey& key,
                               const PassBlocks& passes);

}  // namespace foretrain
