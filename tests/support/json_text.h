// Writes parsed JSON back as text.
#pragma once

#include <string>

#include "base/json/json_copy.h"

namespace foretrain {

// A parsed value as JSON text.
inline std::string TextOf(const JsonValue& value) {
  JsonWriter json;
  Write(value, json);
  return json.Take();
}

}  // namespace foretrain
