// Writes the fields of a config.json that are a family's own, or that several families share. For
// the sources of this folder.
#pragma once

#include <span>
#include <string_view>

#include "base/json/json.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

struct ConfigWriter {
  std::string_view type;                                   // model_type
  std::string_view architecture;                           // name of the library's class
  void (*more)(JsonWriter& json, const ModelSpec& model);  // the family's own fields, or null
};

// In the order in which a family is chosen for a model: those with fewer special parts first.
std::span<const ConfigWriter> ConfigWriters();

// The library's name of an activation.
std::string_view ActivationName(MlpKind mlp);

// Rotary base, rotated part and scaling. Versions 4 and 5 of the library read these fields; version
// 5 writes rope_parameters.
void WriteRope(JsonWriter& json, const ModelSpec& model);

}  // namespace foretrain
