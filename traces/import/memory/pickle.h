// Reads Python's pickles of plain data: numbers, texts, lists, tuples and dicts. Operations that
// make other objects, which could run code, are refused. snapshot.h reads memory snapshots with it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/import/byte_source.h"

namespace foretrain::trace_import {

struct PickleLimits {
  std::int64_t max_values = std::int64_t{1} << 26;  // of about 30 bytes each
  std::int64_t max_text_bytes = std::int64_t{256} << 20;
};

using PickleIndex = std::uint32_t;

// The value of a pickle and all values in it. A value may occur in several places, and even in
// itself, so a reader must not follow values to any depth.
class PickleTree {
 public:
  enum class Kind : std::uint8_t { kNone, kBool, kInteger, kNumber, kText, kList, kDict };

  PickleIndex root() const { return root_; }
  Kind kind(PickleIndex value) const { return values_[value].kind; }

  // The value, or `otherwise` if it is of another kind.
  std::int64_t Integer(PickleIndex value, std::int64_t otherwise = 0) const;
  std::string_view Text(PickleIndex value) const;  // "" for other kinds
  // Items of a list or tuple; empty for other kinds.
  std::span<const PickleIndex> Items(PickleIndex value) const;
  // The member called `name` of a dict, the last if there are several; kNoValue if there is none.
  PickleIndex Find(PickleIndex dict, std::string_view name) const;
  static constexpr PickleIndex kNoValue = 0;  // a value of kind kNone

 private:
  friend class PickleParser;
  struct Value {
    std::int64_t number = 0;  // also the index of a text or of children
    Kind kind = Kind::kNone;
  };
  std::vector<Value> values_{1};
  std::vector<std::string> texts_;
  std::vector<std::vector<PickleIndex>> children_;  // of a dict: names and values in turn
  PickleIndex root_ = kNoValue;
};

// Reads one pickle of protocol 2 to 5.
//
//   source  names the file in messages
//   go_on   called now and then; false ends with kAborted
//
// Errors: kCorruptInput, no pickle or one that ends too early (with the byte); kUnsupported, an
// operation that makes other objects, or protocol 0 or 1; kResourceExhausted, past `limits`;
// kAborted. O(bytes).
Result<PickleTree> ReadPickle(ByteSource& bytes, std::string_view source,
                              const std::function<bool()>& go_on = {},
                              const PickleLimits& limits = {});

}  // namespace foretrain::trace_import
