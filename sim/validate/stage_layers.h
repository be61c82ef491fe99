// Layers of each pipeline stage of a published run. Leaves out balance by seconds: sim/search.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/spec/model_spec.h"

namespace foretrain {

// plan.stage_layers of `layers` over `stages`; empty: even, or one stage.
//
//   end_blocks_count  where the stages do not divide the layers, embedding and head are dealt as a
//                     layer each (Megatron-DeepSpeed's partition by parameters; Qwen3's 94 layers
//                     in 32 stages), so that the first and the last stage have one layer less
//
// What is left over goes to the stages behind the first. A stage that would have no layer has one.
std::vector<int> StageLayers(std::int64_t layers, int stages, bool end_blocks_count);

// Layers of each stage where a stage ends behind the block with which its parameters, added up from
// the first layer's on with the head's, pass its share of all (nanotron, build_model). Empty: one
// stage, or one that would have none.
std::vector<int> StageLayersByParameters(const ModelSpec& model, int stages);

}  // namespace foretrain
