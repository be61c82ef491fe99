// Splits a shell script into commands of raw words. Leaves out their expansion: shell_values.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// A word as written, with its quotes and expansions.
struct ShellWord {
  std::string raw;
  bool is_array = false;  // raw is "NAME=( ... )" or "NAME+=( ... )"
};

struct ShellCommand {
  std::vector<ShellWord> words;
  int line = 0;            // of its first word
  bool ends_case = false;  // ";;" follows
  char joiner = 0;         // '&' if "&&" follows, '|' if "||" does
};

// Splits `text` into commands, at line ends and at ; && || | & and parentheses. Comments,
// redirections and here-documents are dropped.
//
// Errors: kCorruptInput, naming file and line: a quote or an expansion that does not end.
Result<std::vector<ShellCommand>> SplitShell(std::string_view text, std::string_view file);

// The end of the expansion that starts at text[at] == '$' or '`': one past it. npos if it does not
// end. A lone '$' ends after itself.
std::size_t EndOfExpansion(std::string_view text, std::size_t at);

}  // namespace foretrain
