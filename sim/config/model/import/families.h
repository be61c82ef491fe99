// The known model types of config.json, one row each. For hugging_face.cc.
#pragma once

#include <span>
#include <string_view>

#include "sim/config/model/import/config.h"

namespace foretrain {

// Field names of a family. "a|b" means either; "" means the family has no such field.
struct FieldNames {
  std::string_view layers = "num_hidden_layers";
  std::string_view hidden = "hidden_size";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view head_dim = "head_dim";      // hidden / heads if missing
  std::string_view ffn = "intermediate_size";  // 4 * hidden if missing and Family::four_hidden
  std::string_view max_sequence = "max_position_embeddings";
  std::string_view epsilon = "rms_norm_eps";
  std::string_view activation = "hidden_act";
};

struct Family {
  std::string_view type;
  ModelSpec base;  // properties of all models of the family; defaults of missing fields
  FieldNames names = {};
  std::string_view activation = "silu";  // if the field is missing
  bool four_hidden = false;              // the MLP's width may be missing: it is then 4 * hidden
  bool needs_kv_heads = false;
  bool has_decoder_too = false;   // an encoder-decoder, as is_encoder_decoder says
  std::int64_t max_sequence = 0;  // if missing; 0: the field is required
  // Reads the family's own fields.
  void (*more)(Config& config, ModelSpec& model) = nullptr;
};

std::span<const Family> Families();

// Reason why a known model type cannot be described, such as "a hybrid of ..."; empty if the type
// is unknown.
std::string_view WhyNotAModel(std::string_view type);

}  // namespace foretrain
