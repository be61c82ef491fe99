// ModelSpec as JSON. Leaves out other tools' formats: import/hugging_face.h.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

class JsonFields;
class JsonWriter;

// The model in `text`: an object with the fields of ModelSpec, kinds by name ("layernorm",
// "swiglu", "rope"). May be missing: name, kv_heads (as heads), head_dim (hidden / heads),
// rope_theta, norm_epsilon, attention_window,
// global_attention_every.
//
//   file  where `text` comes from, for messages
//
// Errors: naming file, field, value and remedy: not JSON, an unknown or missing field, a value out
// of range, and what ValidateModel refuses. O(bytes); safe from any thread.
Result<ModelSpec> ModelFromJson(std::string_view text, std::string_view file);

// The same from an object that is part of another text; finishes `fields`.
Result<ModelSpec> ReadModel(JsonFields& fields);

// All fields of `model`, two spaces a level. Reads back to an equal ModelSpec.
std::string ToJson(const ModelSpec& model);
void WriteJson(JsonWriter& writer, const ModelSpec& model);

}  // namespace foretrain
