// JSON: accepted text is written and read back to the same text; typed reading never crashes.
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "tests/fuzz/fuzz.h"

namespace {

using foretrain::JsonValue;
using foretrain::JsonWriter;

// Copies a parsed value recursively; the parser's max_depth bounds the recursion.
void Write(const JsonValue& value, JsonWriter& json) {
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

std::string TextOf(const JsonValue& value) {
  JsonWriter json;
  Write(value, json);
  return json.Take();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using foretrain::JsonFields;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = foretrain::ParseJson(text, "fuzz");
  if (!parsed.has_value()) return 0;
  const std::string written = TextOf(*parsed);
  const auto again = foretrain::ParseJson(written, "written");
  FT_CHECK(again.has_value());
  FT_CHECK(TextOf(*again) == written);

  JsonFields fields(*parsed, "fuzz");
  fields.Integer("a", 0, 10);
  fields.Number("b", 0, 10);
  fields.String("c", 10);
  fields.IntegersOr("d", 0, 10);
  JsonFields inner = fields.Object("e");
  inner.Bool("a");
  for (JsonFields& item : fields.ObjectsOr("f")) item.StringsOr("a");
  const bool inner_fine = inner.Finish().has_value();
  const bool fine = fields.Finish().has_value();
  FT_CHECK(inner_fine || !fine);
  return 0;
}
