// Regular expressions over UTF-8 (PCRE2), for the patterns by which tokenizers split text. \s, \w
// and the like follow Unicode.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace foretrain {

class Pattern {
 public:
  // Errors: kCorruptInput, with PCRE2's own words and `source`; kUnsupported in a build without
  // PCRE2.
  static Result<Pattern> Make(const std::string& expression, std::string_view source);
  // One that matches `text` itself.
  static Result<Pattern> Literal(const std::string& text, std::string_view source);

  struct Range {
    std::size_t begin = 0, end = 0;
  };
  // The first match at or behind `from` that is not empty. Safe from any thread.
  std::optional<Range> Find(std::string_view text, std::size_t from) const;

 private:
  struct Code;
  explicit Pattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace foretrain
