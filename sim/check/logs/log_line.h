// Numbers and labels in one line of a log.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace foretrain {

// `line` without terminal colours (ANSI escape sequences).
std::string WithoutColours(std::string_view line);

// The position after `label`, which starts at the line's start or after a character that no name
// holds; npos if the line does not have it.
std::size_t AfterLabel(std::string_view line, std::string_view label);

// The number that stands at `at`, after spaces, dots, quotes and signs of assignment: "1,234.5",
// "1.0E+01" and, with `human`, "10.5K" (10500). Of a pair "(1.0, 2.0)" the larger one. `nullopt` if
// there is none.
std::optional<double> NumberAt(std::string_view line, std::size_t at, bool human = false);

// The number that ends before `at`.
std::optional<double> NumberBefore(std::string_view line, std::size_t at);

}  // namespace foretrain
