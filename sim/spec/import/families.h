// The model types of config.json that are known: a row each. For hugging_face.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sim/spec/import/config.h"

namespace foretrain {

// What the fields of a family are called; "a|b": either. "" where the family has no such field.
struct FieldNames {
  std::string_view layers = "num_hidden_layers";
  std::string_view hidden = "hidden_size";
  std::string_view heads = "num_attention_heads";
  std::string_view kv_heads = "num_key_value_heads";
  std::string_view ffn = "intermediate_size";  // 4 * hidden where missing, if kFourHidden
  std::string_view max_sequence = "max_position_embeddings";
  std::string_view epsilon = "rms_norm_eps";
  std::string_view activation = "hidden_act";
};

struct Family {
  std::string_view type;
  ModelSpec base;  // what all models of the family are, and what missing fields mean
  FieldNames names = {};
  std::string_view activation = "silu";  // where missing
  bool four_hidden = false;              // the MLP may be left out: then it is 4 * hidden wide
  bool needs_kv_heads = false;
  std::int64_t max_sequence = 0;  // where missing; 0: must be there
  // Reads what is the family's own.
  void (*more)(Config& config, ModelSpec& model) = nullptr;
};

std::span<const Family> Families();

// Why models of the type cannot be described, for types that are known not to: "a hybrid of ...";
// empty: unknown.
std::string_view WhyNotAModel(std::string_view type);

}  // namespace foretrain
