// JSON (RFC 8259): parsing, typed reading and writing. The parser enforces limits before it builds
// the tree. Errors of typed reading name file, field and remedy. The writer's bytes are the same on
// every machine.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct JsonLimits {
  std::int64_t max_bytes = std::int64_t{16} << 20;
  int max_depth = 64;                 // nesting of arrays and objects
  std::int64_t max_values = 1 << 18;  // about 150 bytes each in memory
};

// One value of a parsed text; read-only.
class JsonValue {
 public:
  enum class Kind { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }

  // The value itself. Calling a getter of another kind is a bug.
  bool AsBool() const;
  std::int64_t AsInteger() const;  // kInteger only: written without point or exponent, fits int64_t
  double AsNumber() const;         // kNumber or kInteger; always finite
  const std::string& AsString() const;                         // valid UTF-8; may hold NUL
  std::span<const JsonValue> items() const { return items_; }  // of an array or object, in order
  // of an object, parallel to items()
  std::span<const std::string> names() const { return names_; }

  // The member called `name`; null if there is none. O(members).
  const JsonValue* Find(std::string_view name) const;

 private:
  friend class JsonBuilder;
  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  std::int64_t integer_ = 0;
  double number_ = 0;
  std::string string_;
  std::vector<JsonValue> items_;
  std::vector<std::string> names_;
};

// Parses `text`, which may start with a byte-order mark, into a tree.
//
//   source  names the text in messages, e.g. its file
//
// Errors: kCorruptInput if the text is not JSON (with line and column), has broken UTF-8, a name
// twice in one object, or a number beyond double. kInvalidArgument if it passes a limit. O(n log
// n). Safe from any thread.
Result<JsonValue> ParseJson(std::string_view text, std::string_view source,
                            const JsonLimits& limits = {});

// Reads the fields of an object by name and remembers the first error:
//
//   JsonFields fields(value, "model.json");
//   model.hidden = fields.Integer("hidden", 1, 1 << 20);
//   model.bias = fields.BoolOr("bias", false);
//   FT_TRY(fields.Finish());  // refuses fields that were never read, suggests a near name.
//
// If a field is missing, of another kind or out of range, Finish returns the Error. The getter then
// returns the lower limit, the default or an empty value. A null counts as missing. In the `Or`
// forms a missing field yields the default, which is not checked. A nested object is read by its
// own JsonFields, which shares the first error and must be finished too. Borrows the value; not
// thread-safe.
class JsonFields {
 public:
  static constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();

  JsonFields(const JsonValue& value, std::string_view source);
  JsonFields(JsonFields&&) noexcept;
  JsonFields& operator=(JsonFields&&) noexcept;
  ~JsonFields();

  bool Has(std::string_view name);

  std::int64_t Integer(std::string_view name, std::int64_t lo, std::int64_t hi);
  std::int64_t IntegerOr(std::string_view name, std::int64_t otherwise, std::int64_t lo,
                         std::int64_t hi);
  // Accepts integers and other JSON numbers.
  double Number(std::string_view name, double lo, double hi);
  double NumberOr(std::string_view name, double otherwise, double lo, double hi);
  bool Bool(std::string_view name);
  bool BoolOr(std::string_view name, bool otherwise);
  // At most `max_bytes` bytes.
  std::string String(std::string_view name, std::size_t max_bytes = 4096);
  std::string StringOr(std::string_view name, std::string_view otherwise,
                       std::size_t max_bytes = 4096);
  // Index of the field's string in `choices`. Another string is an error that suggests the nearest
  // choice, and the result is 0.
  std::size_t Choice(std::string_view name, std::span<const std::string_view> choices);
  std::size_t ChoiceOr(std::string_view name, std::size_t otherwise,
                       std::span<const std::string_view> choices);

  // Arrays. In the `Or` forms a missing array is empty.
  std::vector<std::int64_t> Integers(std::string_view name, std::int64_t lo, std::int64_t hi) {
    return ReadIntegers(name, true, lo, hi);
  }
  std::vector<std::int64_t> IntegersOr(std::string_view name, std::int64_t lo, std::int64_t hi) {
    return ReadIntegers(name, false, lo, hi);
  }
  std::vector<double> Numbers(std::string_view name, double lo, double hi);
  std::vector<std::string> Strings(std::string_view name, std::size_t max_bytes = 4096) {
    return ReadStrings(name, true, max_bytes);
  }
  std::vector<std::string> StringsOr(std::string_view name, std::size_t max_bytes = 4096) {
    return ReadStrings(name, false, max_bytes);
  }

  // A nested object. If it is missing or no object, the result has no fields and its own errors do
  // not count.
  JsonFields Object(std::string_view name);
  std::optional<JsonFields> ObjectOr(std::string_view name);
  // An array of objects.
  std::vector<JsonFields> Objects(std::string_view name) { return ReadObjects(name, true); }
  std::vector<JsonFields> ObjectsOr(std::string_view name) { return ReadObjects(name, false); }

  // The field's value, marked as read; null if it is missing.
  const JsonValue* Any(std::string_view name);

  // Records the error "file: path.name: why".
  void Refuse(std::string_view name, std::string_view why);

  // All names in order, for objects whose names are data.
  std::span<const std::string> names() const;

  // "file: path", for the caller's own messages.
  std::string Where() const;

  // The first error of this object and of all that share it. Without one, an error if a field was
  // never read; `ignore_unknown` skips this for file formats that others define.
  Result<void> Finish(bool ignore_unknown = false);

  // True if no error was recorded so far.
  bool ok() const;

 private:
  struct Shared;  // the first error; owned by the root
  JsonFields(const JsonValue* value, std::string path, Shared* shared);

  std::vector<std::int64_t> ReadIntegers(std::string_view name, bool required, std::int64_t lo,
                                         std::int64_t hi);
  std::vector<std::string> ReadStrings(std::string_view name, bool required, std::size_t max_bytes);
  std::vector<JsonFields> ReadObjects(std::string_view name, bool required);
  const JsonValue* Take(std::string_view name, bool required, std::string_view wanted);
  std::vector<const JsonValue*> TakeArray(std::string_view name, bool required,
                                          std::string_view wanted);
  std::string PathOf(std::string_view name) const;
  void Wrong(const std::string& path, const JsonValue& value, std::string_view wanted);
  void Note(const std::string& path, const std::string& why);

  const JsonValue* value_;  // null: the object is missing, and an error is recorded
  std::string path_;
  std::vector<std::string> asked_;
  std::unique_ptr<Shared> owned_;
  Shared* shared_;
};

// Writes one JSON text. Wrong use (a value without its name in an object, an end without its start)
// is a bug. Doubles get the shortest text that reads back to the same bits. Infinities and NaN,
// which JSON lacks, become null; broken UTF-8 becomes U+FFFD.
class JsonWriter {
 public:
  // `indent` spaces a level, one value a line; 0 writes everything on one line.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Name(std::string_view name);

  JsonWriter& Null();
  JsonWriter& Bool(bool value);
  JsonWriter& Integer(std::int64_t value);
  JsonWriter& Number(double value);
  JsonWriter& String(std::string_view value);

  // Writes a name and its value.
  JsonWriter& Field(std::string_view name, bool value) { return Name(name).Bool(value); }
  JsonWriter& Field(std::string_view name, double value) { return Name(name).Number(value); }
  JsonWriter& Field(std::string_view name, std::string_view value) {
    return Name(name).String(value);
  }
  JsonWriter& Field(std::string_view name, const char* value) { return Name(name).String(value); }
  template <std::integral T>
  JsonWriter& Field(std::string_view name, T value) {
    return Name(name).Integer(static_cast<std::int64_t>(value));
  }
  JsonWriter& Field(std::string_view name, std::span<const std::string> texts) {
    Name(name).BeginArray();
    for (const std::string& text : texts) String(text);
    return EndArray();
  }

  // Takes the finished text, without a newline at its end.
  std::string Take();

 private:
  void Start();  // before each value: comma, new line, indent
  void Line();
  void Quote(std::string_view text);

  struct Level {
    bool is_object;
    bool empty = true;
  };
  int indent_;
  std::string text_;
  std::vector<Level> levels_;
  bool named_ = false;  // a name was written, its value was not
};

}  // namespace foretrain
