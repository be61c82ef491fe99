// Variables of a shell script and the expansion of its words. Nothing is executed: a value that
// only a command or the environment would give is marked as unknown, with the reason.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

class ShellValues {
 public:
  // Expands a raw word to fields, as a shell splits them. The text of an unknown part is a mark
  // that WhyUnknown finds. `quoted`: without splitting, as on the right of an assignment.
  Result<std::vector<std::string>> Expand(std::string_view raw, bool quoted = false);
  // Assigns "NAME=value", "NAME+=value" or "NAME=(...)". Returns false if `raw` is no assignment.
  Result<bool> Assign(std::string_view raw, bool is_array);
  // Marks the variable as unknown.
  void Forget(const std::string& name, const std::string& why);
  void Unset(const std::string& name) { variables_.erase(name); }

  // The reason of the first unknown part of `text`; empty if all of it is known.
  std::string WhyUnknown(std::string_view text) const;
  // `text` as in an empty environment: variables that were never set are empty. `nullopt` if
  // another part is unknown.
  bool KnownText(std::string& text) const;

  const std::map<std::string, std::vector<std::string>>& variables() const { return variables_; }

 private:
  struct Fields;  // the fields of one word while it is expanded

  Result<void> ExpandInto(std::string_view raw, bool quoted, Fields& fields);
  Result<void> ExpandDollar(std::string_view body, bool quoted, Fields& fields);
  Result<void> ExpandBraces(std::string_view body, bool quoted, Fields& fields);
  std::string Mark(const std::string& why, bool is_unset = false);

  struct Unknown {
    std::string why;
    bool is_unset;
  };
  std::map<std::string, std::vector<std::string>> variables_;
  std::vector<Unknown> unknown_;
  int depth_ = 0;
};

// The value of an integer expression with + - * / % and parentheses, as in $((...)); an error
// names no place.
Result<std::int64_t> EvaluateArithmetic(std::string_view text);

}  // namespace foretrain
