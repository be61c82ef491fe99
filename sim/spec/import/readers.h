// Parts of a config.json that several families share: activations, rotary positions, windows,
// experts. Leaves out which family has which: families.cc. For the sources of this folder.
#pragma once

#include <initializer_list>
#include <string_view>

#include "sim/spec/import/config.h"

namespace foretrain {

// What yarn multiplies sines and cosines by: 0.1 scale ln(factor) + 1 (Peng et al. 2023, s. 3.4).
double YarnMagnitude(double factor, double scale);

// model.mlp of the function that the library calls `field`; gated or not as model.mlp is before.
// Refuses functions that ModelSpec has not.
void ReadActivation(Config& config, std::string_view field, std::string_view otherwise,
                    ModelSpec& model);

// What any configuration may ask for and no model here has: cross attention, pruned heads.
void RefuseOtherParts(Config& config);

// hidden / heads, fields of these names; refuses where that is no whole number.
std::int64_t HeadDimOf(Config& config, std::string_view hidden, std::string_view heads,
                       const ModelSpec& model);

// rope_theta, scaling and the part of a head that is turned. They stand at the top up to version 4
// of the library, in rope_parameters from 5 on.
void ReadRope(Config& config, ModelSpec& model);

// What `layer_types` says of windows of `window` tokens: none, all layers, or all but every n-th;
// false where it is not given.
bool ReadLayerTypes(Config& config, ModelSpec& model, std::int64_t window);
// A window that holds every sequence is none.
void DropWideWindow(ModelSpec& model);
// Windows as Mistral has them: `sliding_window`, null for none, `otherwise` (0: none) where
// missing.
void ReadWindow(Config& config, ModelSpec& model, std::int64_t otherwise);
// As Qwen2 has them: from max_window_layers on, where use_sliding_window says so.
void ReadQwenWindow(Config& config, ModelSpec& model);

// kv_heads has another default in each family, so that one without it is a guess.
void RequireKvHeads(Config& config);

// Number, width and choice of experts. Fields are named as the library does, with alternatives.
struct ExpertFields {
  std::string_view experts = "num_experts|num_local_experts";
  std::string_view width = "moe_intermediate_size";
};
void ReadExperts(Config& config, const ExpertFields& fields, ModelSpec& model);
// Every layer from the first `first_dense_layers` on has them: decoder_sparse_step, mlp_only_layers
// and moe_layer_freq are refused otherwise.
void RequireExpertsEverywhere(Config& config);

}  // namespace foretrain
