// Layers of each pipeline stage of a published run. sim/search balances by seconds instead.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/model/model_spec.h"

namespace foretrain {

// plan.stage_layers for `layers` in `stages`. Empty: an even split, one stage, or more stages than
// blocks.
//
//   end_blocks_count  if the stages do not divide the layers, embedding and head each count as a
//                     layer. The first and last stage then have one layer less
//                     (Megatron-DeepSpeed's partition by parameters; Qwen3's 94 layers in 32
//                     stages). With two stages more than layers it is always so (Llama 3's 126
//                     layers in 128 chunks)
//
// Leftover layers go to the stages after the first.
std::vector<int> StageLayers(std::int64_t layers, int stages, bool end_blocks_count);

// Layers of each stage, split by parameters as in nanotron (build_model). Parameters are summed
// from the first layer on; a stage ends after the block with which the sum passes its share. The
// total includes the head, which may be alone in the last stage. Empty: one stage, or another stage
// without a layer.
std::vector<int> StageLayersByParameters(const ModelSpec& model, int stages);

}  // namespace foretrain
