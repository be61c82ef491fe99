// The writer of JSON.
#include <cmath>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"

namespace foretrain {

// A new line with the indent of the current nesting; nothing in one-line form.
void JsonWriter::Line() {
  if (indent_ == 0) return;
  text_.push_back('\n');
  text_.append(static_cast<std::size_t>(indent_) * levels_.size(), ' ');
}

// Before a member's value, Name has already written comma and line; a value in an array writes its
// own. A second value at the top level is a bug.
void JsonWriter::Start() {
  if (levels_.empty()) {
    FT_CHECK(text_.empty());
    return;
  }
  Level& level = levels_.back();
  FT_CHECK(!level.is_object || named_);
  if (named_) {
    named_ = false;
    return;
  }
  if (!level.empty) text_.push_back(',');
  level.empty = false;
  Line();
}

// Escapes the characters that RFC 8259 requires and copies all other UTF-8 unchanged, so that names
// in any script stay readable.
void JsonWriter::Quote(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  text_.push_back('"');
  while (!text.empty()) {
    const std::size_t size = Utf8Bytes(text);
    const char c = text[0];
    if (size == 0) {
      text_.append("\xef\xbf\xbd");
    } else if (c == '"' || c == '\\') {
      text_.append(1, '\\').append(1, c);
    } else if (c == '\n') {
      text_.append("\\n");
    } else if (c == '\t') {
      text_.append("\\t");
    } else if (size == 1 && static_cast<unsigned char>(c) < 0x20) {
      text_.append("\\u00").append(1, kHex[c >> 4]).append(1, kHex[c & 15]);
    } else {
      text_.append(text.substr(0, size));
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  text_.push_back('"');
}

JsonWriter& JsonWriter::BeginObject() {
  Start();
  text_.push_back('{');
  levels_.push_back({true});
  return *this;
}

// An empty object stays on one line: "{}".
JsonWriter& JsonWriter::EndObject() {
  FT_CHECK(!levels_.empty() && levels_.back().is_object && !named_);
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) Line();
  text_.push_back('}');
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Start();
  text_.push_back('[');
  levels_.push_back({false});
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  FT_CHECK(!levels_.empty() && !levels_.back().is_object);
  const bool empty = levels_.back().empty;
  levels_.pop_back();
  if (!empty) Line();
  text_.push_back(']');
  return *this;
}

JsonWriter& JsonWriter::Name(std::string_view name) {
  FT_CHECK(!levels_.empty() && levels_.back().is_object && !named_);
  if (!levels_.back().empty) text_.push_back(',');
  levels_.back().empty = false;
  Line();
  Quote(name);
  text_.append(indent_ == 0 ? ":" : ": ");
  named_ = true;
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Start();
  text_.append("null");
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Start();
  text_.append(value ? "true" : "false");
  return *this;
}

JsonWriter& JsonWriter::Integer(std::int64_t value) {
  Start();
  text_.append(std::to_string(value));
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (!std::isfinite(value)) return Null();
  Start();
  const std::string shortest = NumberText(value);
  text_.append(shortest);
  // A double with an integer value gets ".0", so that it is read back as kNumber and not as
  // kInteger.
  if (shortest.find_first_of(".e") == std::string::npos) text_.append(".0");
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Start();
  Quote(value);
  return *this;
}

// The text must be complete: every object and array closed.
std::string JsonWriter::Take() {
  FT_CHECK(levels_.empty() && !text_.empty());
  return std::exchange(text_, {});
}

}  // namespace foretrain
