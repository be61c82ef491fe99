// Typed reading of objects. Each getter checks kind and range; the first error is kept in the root
// object, which all nested objects share.
#include <algorithm>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"

namespace foretrain {
namespace {

using Kind = JsonValue::Kind;

// A value as messages show it after "is".
std::string Shown(const JsonValue& value) {
  switch (value.kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return value.AsBool() ? "true" : "false";
    case Kind::kInteger:
      return std::to_string(value.AsInteger());
    case Kind::kNumber: {
      const std::string text = NumberText(value.AsNumber());
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    case Kind::kString:
      return "\"" + Printable(value.AsString()) + "\"";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "";
}

std::string IntegerRange(std::int64_t lo, std::int64_t hi) {
  const std::string from = "an integer from " + std::to_string(lo);
  return hi == JsonFields::kMaxInteger ? from + " up" : from + " to " + std::to_string(hi);
}

std::string NumberRange(double lo, double hi) {
  return "a number from " + NumberText(lo) + " to " + NumberText(hi);
}

std::string ShortString(std::size_t max_bytes) {
  return "a string of at most " + std::to_string(max_bytes) + " bytes";
}

// Lists the choices for a message, at most 20 of them.
std::string OneOf(std::span<const std::string_view> choices) {
  constexpr std::size_t kMaxShown = 20;
  std::vector<std::string> quoted;
  for (const std::string_view choice : choices.first(std::min(choices.size(), kMaxShown))) {
    quoted.push_back("\"" + std::string(choice) + "\"");
  }
  if (choices.size() > kMaxShown) quoted.emplace_back("...");
  return "one of " + Join(quoted, ", ");
}

// Path of an array element, "heads[3]".
std::string Element(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

bool IsInteger(const JsonValue& value, std::int64_t lo, std::int64_t hi) {
  return value.kind() == Kind::kInteger && value.AsInteger() >= lo && value.AsInteger() <= hi;
}

bool IsNumber(const JsonValue& value, double lo, double hi) {
  if (value.kind() != Kind::kInteger && value.kind() != Kind::kNumber) return false;
  return value.AsNumber() >= lo && value.AsNumber() <= hi;
}

bool IsString(const JsonValue& value, std::size_t max_bytes) {
  return value.kind() == Kind::kString && value.AsString().size() <= max_bytes;
}

}  // namespace

struct JsonFields::Shared {
  std::string source;
  std::optional<Error> first_error;
};

// A root that is no object records the error and behaves like an object without fields.
JsonFields::JsonFields(const JsonValue& value, std::string_view source)
    : value_(&value),
      owned_(std::make_unique<Shared>(Shared{Printable(source, 512), {}})),
      shared_(owned_.get()) {
  if (value.kind() != Kind::kObject) {
    Wrong("", value, "an object");
    value_ = nullptr;
  }
}

JsonFields::JsonFields(const JsonValue* value, std::string path, Shared* shared)
    : value_(value), path_(std::move(path)), shared_(shared) {}

JsonFields::JsonFields(JsonFields&&) noexcept = default;
JsonFields& JsonFields::operator=(JsonFields&&) noexcept = default;
JsonFields::~JsonFields() = default;

std::string JsonFields::PathOf(std::string_view name) const {
  const std::string shown = Printable(name);
  return path_.empty() ? shown : path_ + "." + shown;
}

std::string JsonFields::Where() const {
  return path_.empty() ? shared_->source : shared_->source + ": " + path_;
}

// Keeps the first error alone: later ones are often its consequences.
void JsonFields::Note(const std::string& path, const std::string& why) {
  if (shared_->first_error) return;
  shared_->first_error = Error{ErrorCode::kInvalidArgument,
                               shared_->source + ": " + (path.empty() ? "" : path + ": ") + why};
}

void JsonFields::Wrong(const std::string& path, const JsonValue& value, std::string_view wanted) {
  Note(path, "must be " + std::string(wanted) + ", is " + Shown(value));
}

void JsonFields::Refuse(std::string_view name, std::string_view why) {
  Note(name.empty() ? path_ : PathOf(name), std::string(why));
}

bool JsonFields::ok() const { return !shared_->first_error.has_value(); }

std::span<const std::string> JsonFields::names() const {
  return value_ == nullptr ? std::span<const std::string>() : value_->names();
}

// Marks the name as read even if the field is absent: Finish then knows it as a possible name.
const JsonValue* JsonFields::Any(std::string_view name) {
  if (value_ == nullptr) return nullptr;
  if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) asked_.emplace_back(name);
  const JsonValue* const found = value_->Find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool JsonFields::Has(std::string_view name) { return Any(name) != nullptr; }

// If this object is itself missing (value_ is null), its fields are not reported as missing: the
// object's own error says enough.
const JsonValue* JsonFields::Take(std::string_view name, bool required, std::string_view wanted) {
  const JsonValue* const found = Any(name);
  if (found == nullptr && required && value_ != nullptr) {
    Note(PathOf(name), "is missing; it is " + std::string(wanted));
  }
  return found;
}

// The required getters report a missing field and then share range check and message with the `Or`
// form. All out-of-range results are the lower limit, so callers never see an unchecked value.
std::int64_t JsonFields::Integer(std::string_view name, std::int64_t lo, std::int64_t hi) {
  const JsonValue* const found = Take(name, true, IntegerRange(lo, hi));
  return found == nullptr ? lo : IntegerOr(name, lo, lo, hi);
}

std::int64_t JsonFields::IntegerOr(std::string_view name, std::int64_t otherwise, std::int64_t lo,
                                   std::int64_t hi) {
  const JsonValue* const found = Any(name);
  if (found == nullptr) return otherwise;
  if (IsInteger(*found, lo, hi)) return found->AsInteger();
  Wrong(PathOf(name), *found, IntegerRange(lo, hi));
  return lo;
}

double JsonFields::Number(std::string_view name, double lo, double hi) {
  const JsonValue* const found = Take(name, true, NumberRange(lo, hi));
  return found == nullptr ? lo : NumberOr(name, lo, lo, hi);
}

double JsonFields::NumberOr(std::string_view name, double otherwise, double lo, double hi) {
  const JsonValue* const found = Any(name);
  if (found == nullptr) return otherwise;
  if (IsNumber(*found, lo, hi)) return found->AsNumber();
  Wrong(PathOf(name), *found, NumberRange(lo, hi));
  return lo;
}

bool JsonFields::Bool(std::string_view name) {
  return Take(name, true, "true or false") != nullptr && BoolOr(name, false);
}

bool JsonFields::BoolOr(std::string_view name, bool otherwise) {
  const JsonValue* const found = Any(name);
  if (found == nullptr) return otherwise;
  if (found->kind() == Kind::kBool) return found->AsBool();
  Wrong(PathOf(name), *found, "true or false");
  return false;
}

std::string JsonFields::String(std::string_view name, std::size_t max_bytes) {
  return Take(name, true, ShortString(max_bytes)) == nullptr ? "" : StringOr(name, "", max_bytes);
}

std::string JsonFields::StringOr(std::string_view name, std::string_view otherwise,
                                 std::size_t max_bytes) {
  const JsonValue* const found = Any(name);
  if (found == nullptr) return std::string(otherwise);
  if (IsString(*found, max_bytes)) return found->AsString();
  Wrong(PathOf(name), *found, ShortString(max_bytes));
  return "";
}

std::size_t JsonFields::Choice(std::string_view name, std::span<const std::string_view> choices) {
  return Take(name, true, OneOf(choices)) == nullptr ? 0 : ChoiceOr(name, 0, choices);
}

// A wrong string gets the nearest choice in its message; a value of another kind gets the list
// only.
std::size_t JsonFields::ChoiceOr(std::string_view name, std::size_t otherwise,
                                 std::span<const std::string_view> choices) {
  const JsonValue* const found = Any(name);
  if (found == nullptr) return otherwise;
  if (found->kind() == Kind::kString) {
    const auto choice = std::find(choices.begin(), choices.end(), found->AsString());
    if (choice != choices.end()) return static_cast<std::size_t>(choice - choices.begin());
    Note(PathOf(name), "must be " + OneOf(choices) + ", is " + Shown(*found) +
                           DidYouMean(found->AsString(), choices));
    return 0;
  }
  Wrong(PathOf(name), *found, OneOf(choices));
  return 0;
}

// Items of an array field; empty if the field is missing or no array, with an error recorded.
std::vector<const JsonValue*> JsonFields::TakeArray(std::string_view name, bool required,
                                                    std::string_view wanted) {
  std::vector<const JsonValue*> items;
  const JsonValue* const found = Take(name, required, wanted);
  if (found == nullptr) return items;
  if (found->kind() != Kind::kArray) {
    Wrong(PathOf(name), *found, wanted);
    return items;
  }
  for (const JsonValue& item : found->items()) items.push_back(&item);
  return items;
}

std::vector<std::int64_t> JsonFields::ReadIntegers(std::string_view name, bool required,
                                                   std::int64_t lo, std::int64_t hi) {
  std::vector<std::int64_t> values;
  for (const JsonValue* item :
       TakeArray(name, required, "an array, each " + IntegerRange(lo, hi))) {
    if (!IsInteger(*item, lo, hi)) {
      Wrong(Element(PathOf(name), values.size()), *item, IntegerRange(lo, hi));
      return {};
    }
    values.push_back(item->AsInteger());
  }
  return values;
}

std::vector<double> JsonFields::Numbers(std::string_view name, double lo, double hi) {
  std::vector<double> values;
  for (const JsonValue* item : TakeArray(name, true, "an array, each " + NumberRange(lo, hi))) {
    if (!IsNumber(*item, lo, hi)) {
      Wrong(Element(PathOf(name), values.size()), *item, NumberRange(lo, hi));
      return {};
    }
    values.push_back(item->AsNumber());
  }
  return values;
}

std::vector<std::string> JsonFields::ReadStrings(std::string_view name, bool required,
                                                 std::size_t max_bytes) {
  std::vector<std::string> values;
  for (const JsonValue* item :
       TakeArray(name, required, "an array, each " + ShortString(max_bytes))) {
    if (!IsString(*item, max_bytes)) {
      Wrong(Element(PathOf(name), values.size()), *item, ShortString(max_bytes));
      return {};
    }
    values.push_back(item->AsString());
  }
  return values;
}

// Nested readers share the root's error but keep their own list of read names.
std::vector<JsonFields> JsonFields::ReadObjects(std::string_view name, bool required) {
  std::vector<JsonFields> objects;
  for (const JsonValue* item : TakeArray(name, required, "an array of objects")) {
    const std::string path = Element(PathOf(name), objects.size());
    if (item->kind() != Kind::kObject) {
      Wrong(path, *item, "an object");
      return {};
    }
    objects.push_back(JsonFields(item, path, shared_));
  }
  return objects;
}

std::optional<JsonFields> JsonFields::ObjectOr(std::string_view name) {
  const JsonValue* const found = Any(name);
  if (found == nullptr) return std::nullopt;
  if (found->kind() == Kind::kObject) return JsonFields(found, PathOf(name), shared_);
  Wrong(PathOf(name), *found, "an object");
  return JsonFields(nullptr, PathOf(name), shared_);
}

JsonFields JsonFields::Object(std::string_view name) {
  std::optional<JsonFields> object;
  if (Take(name, true, "an object") != nullptr) object = ObjectOr(name);
  return object ? *std::move(object) : JsonFields(nullptr, PathOf(name), shared_);
}

// Fields that were never read are reported in the order of the text. Suggestions come from the
// names that the caller has asked for, so they always match what this reader understands.
Result<void> JsonFields::Finish(bool ignore_unknown) {
  if (!ignore_unknown) {
    for (const std::string& name : names()) {
      if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
      const std::vector<std::string_view> known(asked_.begin(), asked_.end());
      Note(PathOf(name), "is not a known field" + DidYouMean(name, known));
      break;
    }
  }
  if (shared_->first_error) return tl::unexpected<Error>(*shared_->first_error);
  return {};
}

}  // namespace foretrain
