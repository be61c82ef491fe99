// Imports the config.json of Hugging Face models. Leaves out weights and tokenizers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

struct ImportedModel {
  ModelSpec model;
  std::vector<std::string> ignored;  // fields known not to change the model's shape
  std::vector<std::string> unknown;  // unknown fields, also ignored
  std::vector<std::string> notes;    // assumptions and limits, for people
};

// True if `text` is a config.json rather than a ModelSpec: it has "model_type".
bool LooksLikeHuggingFace(std::string_view text);

// Imports the model that a config.json describes. families.cc lists the supported model types, as
// versions 4 and 5 of the transformers library write them.
//
//   file  source of `text`, for messages
//
// A missing field has the library's default if all its versions agree on it (tied embeddings,
// epsilon, rotary base 10000). Fields of the shape itself are required. A sliding window that is
// narrower than the longest sequence becomes attention_window. If layer_types makes every n-th
// layer full, global_attention_every is n.
//
// Errors, naming file, field, value and remedy. kCorruptInput: not JSON. kInvalidArgument: a field
// missing or out of range, or a model that ValidateModel refuses. kUnsupported: another model_type
// (the supported ones are listed), or a feature that ModelSpec cannot express. O(bytes); safe from
// any thread.
Result<ImportedModel> ModelFromHuggingFace(std::string_view text, std::string_view file);

}  // namespace foretrain
