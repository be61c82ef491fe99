// Which layers have experts, as Megatron-LM's --moe-layer-freq says it: "1", "2", or a list such as
// "([0]*3+[1]*58)". Nothing is evaluated but sums and products of lists of 0 and 1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

struct ExpertLayers {
  std::int64_t first_dense_layers = 0;
  std::int64_t expert_every = 1;
};

// Reads the pattern of `layers` layers. A frequency n gives layers 0, n, 2 n, ... experts; models
// have them in layers n - 1, 2 n - 1, ..., as many if n divides the layers.
//
// Errors: kInvalidArgument, what the text must be: no list of 0 and 1 for each layer, or a pattern
// that is neither leading layers without experts nor experts in every n-th layer.
Result<ExpertLayers> ParseExpertLayers(std::string_view text, std::int64_t layers);

// The list of a model; empty if all layers have experts or none has.
std::string ExpertLayersText(const ModelSpec& model);

}  // namespace foretrain
