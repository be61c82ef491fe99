// Names for the tensors of a distributed checkpoint: a tensor that holds all layers or all experts
// is cut into one for each.
#pragma once

#include <map>
#include <string>

#include "runtime/parameters/torch/distributed_checkpoint.h"

namespace foretrain {

// All tensors by name, with the names of Megatron's modules:
//
//   decoder.layers.W            dimension 0 is the layer: decoder.layers.N.W
//   ...experts.experts.W        the next dimension is the expert: ...experts.experts.E.W
//   W.layer_norm_weight         a norm that is part of a linear has its own name: input_layernorm
//   mtp.layers.N.W              layers that predict further tokens follow the others
//   module.W, model.model.W     wrappers' names are left out
//
// Names of other trainers stay as they are. O(tensors x layers x experts).
std::map<std::string, TensorSlice, std::less<>> SlicesOf(const ChunkedTensors& tensors);

}  // namespace foretrain
