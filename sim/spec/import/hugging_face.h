// Import of the config.json that Hugging Face models come with. Leaves out weights and tokenizers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

struct ImportedModel {
  ModelSpec model;
  std::vector<std::string> ignored;  // fields that are known not to change the model's shape
  std::vector<std::string> unknown;  // fields that are not known here, and were left out as well
  std::vector<std::string> notes;    // what was assumed or limited, for people
};

// Whether `text` is to be read as a config.json rather than as a ModelSpec: it names "model_type".
bool LooksLikeHuggingFace(std::string_view text);

// The model that the config.json in `text` describes; model_type gpt2, llama, mistral, qwen2,
// mixtral or qwen2_moe, as versions 4 and 5 of the transformers library write them.
//
//   file  where `text` comes from, for messages
//
// A field that is missing has the library's default where that is the same in all its versions
// (tied embeddings, epsilon, rotary base 10000); the shape itself must be there. In Llama
// `attention_bias` covers q, k, v and the output, `mlp_bias` the MLP; in Qwen2 q, k and v have
// biases, always. A sliding window that is narrower than the longest sequence becomes
// attention_window, and layer_types in which every n-th layer is full global_attention_every.
//
// Errors, naming file, field, value and remedy: kCorruptInput, not JSON; kInvalidArgument, a field
// missing or out of range, or a model that ValidateModel refuses; kUnsupported, another model_type
// (those supported are listed), scaled or partial rotary positions, another activation, biases on
// the attention output alone, cross attention, pruned heads, attention scales other than
// 1/sqrt(head_dim). O(bytes); safe from any thread.
Result<ImportedModel> ModelFromHuggingFace(std::string_view text, std::string_view file);

}  // namespace foretrain
