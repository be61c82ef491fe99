// Reads Python's pickles: numbers, texts, lists, tuples and dicts. Objects of classes are refused,
// or kept as records of their class and arguments. No class is looked up and nothing is called.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct PickleOptions {
  bool keeps_objects = false;                       // false: an object ends with kUnsupported
  std::int64_t max_values = std::int64_t{1} << 26;  // of about 30 bytes each
  std::int64_t max_text_bytes = std::int64_t{256} << 20;
  std::string_view if_too_large = "write fewer values to it";  // for the user
  std::function<bool()> go_on{};  // called now and then; false ends with kAborted
};

// Fills up to out.size() bytes and returns the number; 0 only at the end.
using ReadBytes = std::function<Result<std::int64_t>(std::span<char> out)>;

using PickleIndex = std::uint32_t;

// The value of a pickle and all values in it. A value may occur in several places, and even in
// itself, so a reader must not follow values to any depth.
class PickleTree {
 public:
  // kObject: an object that Python would make by calling a class or function.
  // kName: a class, function or constant, such as torch.bfloat16.
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kNumber,
    kText,
    kList,
    kDict,
    kObject,
    kName
  };

  PickleIndex root() const { return root_; }
  Kind kind(PickleIndex value) const { return values_[value].kind; }

  // The value, or `otherwise` if it is of another kind.
  std::int64_t Integer(PickleIndex value, std::int64_t otherwise = 0) const;
  std::string_view Text(PickleIndex value) const;  // "" for other kinds
  // "module.name" of a name; the name of its class, or kPersistent, of an object; "" for other
  // kinds.
  std::string_view Name(PickleIndex value) const;
  // Items of a list or tuple, and arguments of an object; empty for other kinds.
  std::span<const PickleIndex> Items(PickleIndex value) const;
  // The items of a list or tuple; -1 for those that are no integers.
  std::vector<std::int64_t> Integers(PickleIndex list) const;
  // Names and values of a dict in turn; empty for other kinds.
  std::span<const PickleIndex> Members(PickleIndex value) const;
  // The state that an object gets after it is made, usually a dict of its fields; else kNoValue.
  PickleIndex State(PickleIndex object) const;
  // The member called `name` of a dict, or of an object whose state is one: the last if there are
  // several; kNoValue if there is none.
  PickleIndex Find(PickleIndex dict, std::string_view name) const;
  static constexpr PickleIndex kNoValue = 0;  // a value of kind kNone
  // Name of an object that the file refers to by an id, its only argument.
  static constexpr std::string_view kPersistent = "persistent";

 private:
  friend class PickleParser;
  struct Value {
    std::int64_t number = 0;  // also the index of a text or of children
    Kind kind = Kind::kNone;
  };
  std::vector<Value> values_{1};
  std::vector<std::string> texts_;
  // A dict has names and values in turn; an object has its class, state and arguments.
  std::vector<std::vector<PickleIndex>> children_;
  PickleIndex root_ = kNoValue;
};

// Reads one pickle of protocol 2 to 5. `source` names the file in messages.
//
// Errors: those of `read`; kCorruptInput, no pickle or one that ends too early (with the byte);
// kUnsupported, an operation that makes objects if they are not kept, or protocol 0 or 1;
// kResourceExhausted, past the limits; kAborted. O(bytes).
Result<PickleTree> ReadPickle(const ReadBytes& read, std::string_view source,
                              const PickleOptions& options = {});
// Reads the pickle at the start of `bytes`.
Result<PickleTree> ReadPickle(std::string_view bytes, std::string_view source,
                              const PickleOptions& options = {});

}  // namespace foretrain
