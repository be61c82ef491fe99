// Parsing and the tree. The events of nlohmann's parser feed a builder, which enforces the limits,
// so that no tree larger than the limits is ever built.
#include <algorithm>
#include <cstdint>
#include <exception>

#include <nlohmann/json.hpp>

#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {

using Events = nlohmann::json_sax<nlohmann::json>;

// Builds the tree from the parser's events. If an event returns false, the parser stops and error_
// holds the reason.
class JsonBuilder final : public Events {
 public:
  JsonBuilder(std::string_view text, std::string_view source, const JsonLimits& limits)
      : text_(text), source_(source), limits_(limits) {}

  bool null() override { return Add(JsonValue::Kind::kNull) != nullptr; }
  bool boolean(bool value) override {
    JsonValue* const added = Add(JsonValue::Kind::kBool);
    if (added == nullptr) return false;
    added->bool_ = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    JsonValue* const added = Add(JsonValue::Kind::kInteger);
    if (added == nullptr) return false;
    added->integer_ = value;
    return true;
  }
  // Integers beyond int64_t become doubles, as JSON itself has one number type.
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      return number_integer(static_cast<std::int64_t>(value));
    }
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(number_float_t value, const string_t&) override {
    JsonValue* const added = Add(JsonValue::Kind::kNumber);
    if (added == nullptr) return false;
    added->number_ = value;
    return true;
  }
  bool string(string_t& value) override {
    JsonValue* const added = Add(JsonValue::Kind::kString);
    if (added == nullptr) return false;
    added->string_ = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(JsonValue::Kind::kObject); }
  bool start_array(std::size_t) override { return Open(JsonValue::Kind::kArray); }
  bool key(string_t& name) override {
    open_.back()->names_.push_back(std::move(name));
    return true;
  }
  // Duplicate names are found by sorting at the end of the object: n log n instead of n^2 for a
  // hostile object with many names.
  bool end_object() override {
    std::vector<std::string_view> names(open_.back()->names_.begin(), open_.back()->names_.end());
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) {
      return Stop(ErrorCode::kCorruptInput,
                  "the name \"" + Printable(*twice) + "\" is twice in one object");
    }
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  // Rewrites the library's text to one sentence with line and column; a position at the end of the
  // text hints at a file that was cut off.
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (Trim(text_).empty()) return Stop(ErrorCode::kCorruptInput, "is empty; it holds no JSON");
    // "[json...] parse error at line 1, column 2: syntax error while parsing value - REASON".
    const std::string_view what = error.what();
    const std::size_t place = what.find(": "), dash = what.find(" - ");
    std::string_view reason = place == std::string_view::npos ? what : what.substr(place + 2);
    if (dash != std::string_view::npos) reason = what.substr(dash + 3);
    return Stop(ErrorCode::kCorruptInput,
                Place(position) + ": is no JSON" +
                    (position >= text_.size() ? ", or was cut off here: " : ": ") +
                    Printable(reason, 200));
  }

  Result<JsonValue> Finish(bool parsed) {
    if (parsed && !error_) return std::move(root_);
    if (!error_) Stop(ErrorCode::kCorruptInput, "is not JSON");
    return tl::unexpected<Error>(std::move(*error_));
  }

  bool Stop(ErrorCode code, const std::string& why) {
    if (!error_) error_ = Error{code, source_ + ": " + why};
    return false;
  }

 private:
  // Counts the value before it is created, so the tree never exceeds max_values.
  JsonValue* Add(JsonValue::Kind kind) {
    if (++values_ > limits_.max_values) {
      Stop(ErrorCode::kInvalidArgument,
           "holds more than " + std::to_string(limits_.max_values) + " values");
      return nullptr;
    }
    JsonValue* const added = open_.empty() ? &root_ : &open_.back()->items_.emplace_back();
    added->kind_ = kind;
    return added;
  }

  // Pushes the new value on the stack of open ones. A parent gets its next item only after its open
  // child has ended, so the vector of items does not move under a pointer in open_.
  bool Open(JsonValue::Kind kind) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth) {
      return Stop(ErrorCode::kInvalidArgument,
                  "is nested more than " + std::to_string(limits_.max_depth) + " deep");
    }
    JsonValue* const added = Add(kind);
    if (added == nullptr) return false;
    open_.push_back(added);
    return true;
  }

  // Line and column are counted only for an error message: one pass over the text.
  std::string Place(std::size_t position) const {
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t newline = before.rfind('\n');
    const std::size_t column =
        before.size() - (newline == std::string_view::npos ? 0 : newline + 1);
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
  }

  std::string_view text_;
  std::string source_;
  JsonLimits limits_;
  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::int64_t values_ = 0;
  std::optional<Error> error_;
};

bool JsonValue::AsBool() const {
  FT_CHECK(kind_ == Kind::kBool);
  return bool_;
}

std::int64_t JsonValue::AsInteger() const {
  FT_CHECK(kind_ == Kind::kInteger);
  return integer_;
}

double JsonValue::AsNumber() const {
  FT_CHECK(kind_ == Kind::kNumber || kind_ == Kind::kInteger);
  return kind_ == Kind::kInteger ? static_cast<double>(integer_) : number_;
}

const std::string& JsonValue::AsString() const {
  FT_CHECK(kind_ == Kind::kString);
  return string_;
}

const JsonValue* JsonValue::Find(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return found == names_.end() ? nullptr
                               : &items_[static_cast<std::size_t>(found - names_.begin())];
}

Result<JsonValue> ParseJson(std::string_view text, std::string_view source,
                            const JsonLimits& limits) {
  JsonBuilder builder(text, Printable(source, 512), limits);
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    builder.Stop(ErrorCode::kInvalidArgument,
                 "is " + FormatBytes(static_cast<std::int64_t>(text.size())) + "; at most " +
                     FormatBytes(limits.max_bytes) + " are read");
    return builder.Finish(false);
  }
  try {
    return builder.Finish(nlohmann::json::sax_parse(text.begin(), text.end(), &builder));
  } catch (const std::exception& error) {  // from the library, or out of memory
    builder.Stop(ErrorCode::kResourceExhausted, error.what());
    return builder.Finish(false);
  }
}

}  // namespace foretrain
