// Parts of a config.json that several families share: activations, rotary positions, windows,
// experts. families.cc says which family has which. For the sources of this folder.
#pragma once

#include <string_view>

#include "sim/config/model/import/config.h"

namespace foretrain {

// Note on files whose rotary pairs are neighbours.
inline constexpr const char* kAdjacentPairs =
    "rotary pairs lie half a head apart: rows of q and k are in another order";

// YaRN's factor of sines and cosines: 0.1 scale ln(factor) + 1 (Peng et al. 2023, s. 3.4).
double YarnMagnitude(double factor, double scale);

// Sets model.mlp from the activation's library name in `field`. It stays gated or ungated, as
// model.mlp was. Refuses functions that ModelSpec lacks.
void ReadActivation(Config& config, std::string_view field, std::string_view otherwise,
                    ModelSpec& model);

// Refuses features that no model here has: cross attention, pruned heads.
void RefuseOtherParts(Config& config);

// hidden / heads, from fields of these names; refuses a fraction.
std::int64_t HeadDimOf(Config& config, std::string_view hidden, std::string_view heads,
                       const ModelSpec& model);

// Reads rope_theta, scaling and the rotated part of a head. They are top-level fields up to version
// 4 of the library, in rope_parameters from version 5 on.
void ReadRope(Config& config, ModelSpec& model);

// Reads `layer_types`: windows of `window` tokens in no layer, in all, or in all but every n-th.
// False if the field is missing.
bool ReadLayerTypes(Config& config, ModelSpec& model, std::int64_t window);
// Drops a window that covers every sequence.
void DropWideWindow(ModelSpec& model);
// Mistral's windows: `sliding_window`, null for none; `otherwise` (0: none) if missing.
void ReadWindow(Config& config, ModelSpec& model, std::int64_t otherwise);
// Qwen2's windows: from layer max_window_layers on, if use_sliding_window is set.
void ReadQwenWindow(Config& config, ModelSpec& model);

// Sets rotate_global and global_attention_every by no_rope_layers, which has a 1 for each layer
// with rotary positions; if it is missing or empty, every no_rope_layer_interval-th layer has none.
void ReadRopelessLayers(Config& config, ModelSpec& model);

// Requires the field: its default differs between families, so a file without it would be a guess.
void RequireKvHeads(Config& config);

// Field names of the experts' number and width, with alternatives.
struct ExpertFields {
  std::string_view experts = "num_experts|num_local_experts";
  std::string_view width = "moe_intermediate_size";
};
void ReadExperts(Config& config, const ExpertFields& fields, ModelSpec& model);
// Qwen's layers with experts: every decoder_sparse_step-th one that mlp_only_layers leaves out.
// Refuses a list other than that of the first layers.
void ReadExpertLayers(Config& config, ModelSpec& model);
// DeepSeek's: every layer from first_dense_layers on. Refuses another moe_layer_freq.
void RequireExpertsEverywhere(Config& config);

}  // namespace foretrain
