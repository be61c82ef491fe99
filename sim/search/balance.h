// Layers of each pipeline stage so that no stage takes longer than it must: the embedding weighs
// little, a large head as much as several layers.
#pragma once

#include <vector>

#include "sim/search/closed_form.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// plan.stage_layers with the shortest longest stage, by the seconds of forward and backward of one
// micro-batch; of equals one near the even deal. Empty where it is the even deal.
//
//   plan     valid for the model; its own stage_layers do not count
//   seconds  of an op
//
// Each stage has a layer at least. O(stages^2 + layers log(layers) + ops of a block).
std::vector<int> BalancedLayers(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds);

// The same for blocks of given seconds.
std::vector<int> BalanceLayers(int layers, int stages, double embedding_s, double layer_s,
                               double head_s);

}  // namespace foretrain
