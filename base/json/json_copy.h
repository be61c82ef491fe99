// Writes a parsed JSON value again.
#pragma once

#include "base/json/json.h"

namespace foretrain {

// Copies a parsed value recursively; the parser's max_depth bounds the recursion.
inline void Write(const JsonValue& value, JsonWriter& json) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      json.Null();
      return;
    case JsonValue::Kind::kBool:
      json.Bool(value.AsBool());
      return;
    case JsonValue::Kind::kInteger:
      json.Integer(value.AsInteger());
      return;
    case JsonValue::Kind::kNumber:
      json.Number(value.AsNumber());
      return;
    case JsonValue::Kind::kString:
      json.String(value.AsString());
      return;
    case JsonValue::Kind::kArray:
      json.BeginArray();
      for (const JsonValue& item : value.items()) Write(item, json);
      json.EndArray();
      return;
    case JsonValue::Kind::kObject:
      json.BeginObject();
      for (std::size_t i = 0; i < value.names().size(); ++i) {
        json.Name(value.names()[i]);
        Write(value.items()[i], json);
      }
      json.EndObject();
  }
}

}  // namespace foretrain
