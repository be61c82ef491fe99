// Writes Python pickles of plain data (protocol 4): integers, texts, lists, tuples and dicts. A
// text is written once and recalled after that.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// Values in order: Name and a value in a dict, values in a list. Ends without their start are a
// bug. Errors of the sink are kept and returned by Finish; nothing is written after one.
class PickleWriter {
 public:
  explicit PickleWriter(std::function<Result<void>(std::string_view)> sink);

  PickleWriter& BeginDict();
  PickleWriter& EndDict();
  PickleWriter& BeginList();
  PickleWriter& EndList();
  PickleWriter& Text(std::string_view text);  // UTF-8; broken parts become \xNN
  PickleWriter& Integer(std::int64_t value);
  PickleWriter& Bool(bool value);
  PickleWriter& TupleOfTwo(std::int64_t first, std::int64_t second);

  // Members of a dict.
  PickleWriter& Name(std::string_view name) { return Text(name); }
  PickleWriter& Field(std::string_view name, std::int64_t value) {
    return Text(name).Integer(value);
  }
  PickleWriter& Field(std::string_view name, std::string_view value) {
    return Text(name).Text(value);
  }

  // Remembers the list or dict that was ended last; Recall writes it again, as the same object.
  std::uint32_t Remember();
  PickleWriter& Recall(std::uint32_t remembered);

  // Ends the pickle, whose one value must be whole.
  Result<void> Finish();

 private:
  void Number(std::uint64_t value, int bytes);
  void Start();  // before each value
  void FlushIfFull();

  struct Level {
    bool is_dict = false;
    std::int64_t values = 0;  // since the last mark
  };
  std::function<Result<void>(std::string_view)> sink_;
  std::string bytes_;
  std::vector<Level> levels_;
  std::map<std::string, std::uint32_t, std::less<>> texts_;  // place in the memo
  std::uint32_t memo_ = 0;
  Result<void> state_{};
};

}  // namespace foretrain
