// Small work on text: cutting, strict numbers, the nearest known name. Leaves out formatting of
// quantities (base/units.h) and locale: every function here is ASCII and means the same everywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// The parts of `text` between separators, empty ones too: "a,,b" has three, "" has one. The views
// live as long as `text`. O(n).
std::vector<std::string_view> Split(std::string_view text, char separator);

// `text` without the spaces, tabs and line ends around it.
std::string_view Trim(std::string_view text);

// A to Z made small; all other bytes as they are.
std::string ToLower(std::string_view text);

// `parts` with `separator` between them.
std::string Join(std::span<const std::string> parts, std::string_view separator);

// The integer that the whole of `text` spells in base 10: an optional minus and digits, nothing
// around.
//
//   what    names the value in the message, e.g. "--tp"
//   lo, hi  inclusive
//
// Errors: kInvalidArgument, not an integer or outside lo to hi.
Result<std::int64_t> ParseInt(std::string_view what, std::string_view text, std::int64_t lo,
                              std::int64_t hi);

// The same for a finite real number in C notation, "1e-3"; no hexadecimal, infinity or NaN.
Result<double> ParseNumber(std::string_view what, std::string_view text, double lo, double hi);

// The member of `known` that `name` most likely was meant to be, or nothing. Case and the
// difference between - _ . and space do not count; then at most a third of the letters may be
// added, dropped, changed or swapped with their neighbour [1]; ties go to the first. Where none is
// so near, the shortest member that begins with `name`, if it has three letters.
// O(known * length^2). [1] Damerau 1964
std::optional<std::string_view> NearestName(std::string_view name,
                                            std::span<const std::string_view> known);

// ". Did you mean "x"?" for the end of a message, or "" when nothing is near.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> known);

// `text` as it may be shown in a message or on a terminal: control bytes and broken UTF-8 as \xNN,
// at most `max_bytes` bytes and then "...".
std::string Printable(std::string_view text, std::size_t max_bytes = 80);

}  // namespace foretrain
