// ModelSpec as JSON. import/hugging_face.h reads other formats.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json/members.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

// Parses a model: an object with the fields of ModelSpec, kinds by name ("layernorm", "swiglu",
// "rope"). Optional fields with their defaults: name, kv_heads (heads), head_dim (hidden / heads),
// rope_theta, norm_epsilon, attention_window, global_attention_every, and all fields of special
// features.
//
//   file  source of `text`, for messages
//
// Errors name file, field, value and remedy: not JSON, an unknown or missing field, a value out of
// range, or anything that ValidateModel refuses. O(bytes); safe from any thread.
Result<ModelSpec> ModelFromJson(std::string_view text, std::string_view file);

// Reads the same from an object within another text; finishes `fields`.
Result<ModelSpec> ReadModel(JsonFields& fields);

// Writes all fields of `model`, indented by two spaces. Reads back to an equal ModelSpec.
std::string ToJson(const ModelSpec& model);
void WriteJson(JsonWriter& writer, const ModelSpec& model);

// The counts, flags and numbers of special features: each has a default.
std::span<const JsonMember<ModelSpec>> OptionalModelMembers();

}  // namespace foretrain
