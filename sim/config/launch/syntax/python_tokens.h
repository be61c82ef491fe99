// Words of a Python text: names, numbers, texts and signs, with the ends of logical lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct PythonToken {
  enum class Kind : std::uint8_t { kName, kNumber, kText, kSign, kLine, kEnd };
  Kind kind = Kind::kEnd;
  std::string text{};  // of a text: without quotes; of a number: without "_"
  int line = 0;        // from 1
  int column = 0;      // of its first character, from 0
};

// The tokens of `text`, then three of kEnd. Lines in brackets and after "\" go on; comments are
// left out. Texts with a prefix f are computed, so they are signs. Errors: kCorruptInput, a text
// without an end. O(bytes).
Result<std::vector<PythonToken>> PythonTokensOf(std::string_view text, std::string_view file);

}  // namespace foretrain
