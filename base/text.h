// Text helpers: splitting, strict numbers, the nearest known name. Quantities are formatted in
// base/units.h. All functions use ASCII rules, independent of the locale.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

// The parts of `text` between separators, including empty parts: "a,,b" has three, "" has one. The
// views live as long as `text`. O(n).
std::vector<std::string_view> Split(std::string_view text, char separator);

// `text` without leading and trailing white space.
std::string_view Trim(std::string_view text);

// Maps A to Z to lower case; other bytes stay.
std::string ToLower(std::string_view text);

// `parts` joined with `separator` between them.
std::string Join(std::span<const std::string> parts, std::string_view separator);

// The shortest text that reads back to the same double, so that ranges in messages are exact.
std::string NumberText(double value);

// The integer that all of `text` spells in base 10: an optional minus and digits, nothing else.
//
//   what    names the value in the message, e.g. "--tp"
//   lo, hi  inclusive
//
// Errors: kInvalidArgument if it is not an integer or lies outside [lo, hi].
Result<std::int64_t> ParseInt(std::string_view what, std::string_view text, std::int64_t lo,
                              std::int64_t hi);

// As ParseInt for a finite real number in C notation ("1e-3"); no hexadecimal, infinity or NaN.
Result<double> ParseNumber(std::string_view what, std::string_view text, double lo, double hi);

// The member of `known` that `name` most likely meant; `nullopt` if none is near. Case and the
// characters - _ . and space do not count. Up to a third of the letters may be added, dropped,
// changed or swapped with a neighbour [1]; ties go to the first member. If none is near, the
// shortest member that starts with `name`, if `name` has three letters. O(known * length^2). [1]
// Damerau 1964
std::optional<std::string_view> NearestName(std::string_view name,
                                            std::span<const std::string_view> known);

// `. Did you mean "x"?` for the end of a message, or "" if no name is near.
std::string DidYouMean(std::string_view name, std::span<const std::string_view> known);

// Bytes of the well-formed UTF-8 character at the start of `text`, which is not empty; 0 if it is
// malformed [RFC 3629].
std::size_t Utf8Bytes(std::string_view text);

// `text` made safe for messages and terminals: control bytes and broken UTF-8 become \xNN. If the
// result would exceed `max_bytes`, it is cut and "..." is added.
std::string Printable(std::string_view text, std::size_t max_bytes = 80);

}  // namespace foretrain
