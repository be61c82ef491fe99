#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace foretrain {
namespace {

constexpr std::string_view kSpaces = " \t\r\n\v\f";

// `text` in lower case without the characters that do not count in a name: - _ . and space.
std::string Plain(std::string_view text) {
  std::string plain;
  for (const char c : ToLower(text)) {
    if (c != '-' && c != '_' && c != '.' && c != ' ') plain.push_back(c);
  }
  return plain;
}

// Number of insertions, deletions, substitutions and swaps of neighbours that turn a into b
// (Damerau). Three rows of the table suffice: O(|a| |b|) time, O(|b|) memory.
std::size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// The shortest of `known` that starts with `wanted`: "zero_stage" for "zero".
std::optional<std::string_view> ShortestThatStarts(std::string_view wanted,
                                                   std::span<const std::string_view> known) {
  constexpr std::size_t kFewest = 3;  // fewer letters match too much by chance
  std::optional<std::string_view> shortest;
  if (wanted.size() < kFewest) return shortest;
  for (const std::string_view candidate : known) {
    if (!Plain(candidate).starts_with(wanted)) continue;
    if (!shortest || candidate.size() < shortest->size()) shortest = candidate;
  }
  return shortest;
}

// As Utf8Bytes, but 0 for a control character too.
std::size_t VisibleBytes(std::string_view text) {
  const std::size_t size = Utf8Bytes(text);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (size == 1) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  char32_t code = byte(0) & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) code = (code << 6) | (byte(i) & 0x3fU);
  // C1 controls, and the marks that change the direction of the text around them.
  const bool control = code < 0xa0 || (code >= 0x200e && code <= 0x200f) ||
                       (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return control ? 0 : size;
}

std::string NotThere(std::string_view what, std::string_view text, std::string_view kind,
                     const std::string& lo, const std::string& hi) {
  return std::string(what) + ": \"" + Printable(text) + "\" is not " + std::string(kind) +
         " from " + lo + " to " + hi;
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// A text of white space only becomes empty.
std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// Only ASCII letters change, whatever the locale.
std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

std::string Join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text.append(separator);
    text.append(part);
  }
  return text;
}

std::string NumberText(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// from_chars accepts no white space, no plus sign and no locale; the end check refuses trailing
// text.
Result<std::int64_t> ParseInt(std::string_view what, std::string_view text, std::int64_t lo,
                              std::int64_t hi) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < lo || value > hi) {
    return Fail(ErrorCode::kInvalidArgument,
                NotThere(what, text, "an integer", std::to_string(lo), std::to_string(hi)));
  }
  return value;
}

// "inf" and "nan" are refused, although from_chars reads them.
Result<double> ParseNumber(std::string_view what, std::string_view text, double lo, double hi) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < lo || value > hi) {
    return Fail(ErrorCode::kInvalidArgument,
                NotThere(what, text, "a number", NumberText(lo), NumberText(hi)));
  }
  return value;
}

// A full edit distance to each name is affordable because texts are short (kLongest).
std::optional<std::string_view> NearestName(std::string_view name,
                                            std::span<const std::string_view> known) {
  // longer texts are no names; this bounds the cost of a hostile one
  constexpr std::size_t kLongest = 64;
  if (name.size() > kLongest) return std::nullopt;
  const std::string wanted = Plain(name);
  std::optional<std::string_view> nearest;
  std::size_t min = wanted.size() / 3 + 1;  // one more than the largest accepted distance
  for (const std::string_view candidate : known) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = Distance(wanted, Plain(candidate));
    if (distance < min) {
      min = distance;
      nearest = candidate;
    }
  }
  return nearest ? nearest : ShortestThatStarts(wanted, known);
}

std::string DidYouMean(std::string_view name, std::span<const std::string_view> known) {
  const auto nearest = NearestName(name, known);
  return nearest ? ". Did you mean \"" + std::string(*nearest) + "\"?" : "";
}

std::size_t Utf8Bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Rejects overlong forms, surrogates and codes above U+10FFFF.
  const unsigned char second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) return 0;
  return size;
}

// Escapes byte by byte, so that no input can send control sequences to a terminal or hide text.
std::string Printable(std::string_view text, std::size_t max_bytes) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string shown;
  while (!text.empty()) {
    const std::size_t size = VisibleBytes(text);
    if (shown.size() + (size == 0 ? 4 : size) > max_bytes) return shown + "...";
    if (size == 0) {
      const auto byte = static_cast<unsigned char>(text[0]);
      shown.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    } else {
      shown.append(text.substr(0, size));
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return shown;
}

}  // namespace foretrain
