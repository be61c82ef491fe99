#include "sim/check/logs/log_line.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr double kMaxLogNumber = 1e18;
constexpr std::size_t kMaxDigits = 40;

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// The characters of a number from `at` on.
std::string_view DigitsAt(std::string_view line, std::size_t at) {
  std::size_t end = at;
  while (end < line.size() && end - at < kMaxDigits) {
    const char c = line[end];
    const bool sign =
        (c == '-' || c == '+') && (end == at || line[end - 1] == 'e' || line[end - 1] == 'E');
    const bool exponent = (c == 'e' || c == 'E') && end > at && end + 1 < line.size() &&
                          (IsDigit(line[end + 1]) || line[end + 1] == '-' || line[end + 1] == '+');
    const bool comma = c == ',' && end > at && end + 1 < line.size() && IsDigit(line[end - 1]) &&
                       IsDigit(line[end + 1]);
    if (!IsDigit(c) && c != '.' && !sign && !exponent && !comma) break;
    ++end;
  }
  return line.substr(at, end - at);
}

std::optional<double> Parse(std::string_view text) {
  std::string plain(text);
  std::erase(plain, ',');
  while (plain.ends_with('.')) plain.pop_back();
  const auto number = ParseNumber("", plain, -kMaxLogNumber, kMaxLogNumber);
  if (!number) return std::nullopt;
  return *number;
}

double HumanFactor(char c) {
  switch (c) {
    case 'K':
      return 1e3;
    case 'M':
      return 1e6;
    case 'B':
    case 'G':
      return 1e9;
    case 'T':
      return 1e12;
    default:
      return 1;
  }
}

}  // namespace

// A sequence is ESC, "[", parameters and a letter.
std::string WithoutColours(std::string_view line) {
  if (line.find('\x1b') == std::string_view::npos) return std::string(line);
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (i + 1 < line.size() && std::isalpha(static_cast<unsigned char>(line[i + 1])) == 0) ++i;
    ++i;
  }
  return out;
}

std::size_t AfterLabel(std::string_view line, std::string_view label) {
  if (label.empty()) return std::string_view::npos;
  for (std::size_t at = line.find(label); at != std::string_view::npos;
       at = line.find(label, at + 1)) {
    const bool starts =
        at == 0 || !IsNameCharacter(line[at - 1]) || !IsNameCharacter(label.front());
    if (starts) return at + label.size();
  }
  return std::string_view::npos;
}

std::optional<double> NumberAt(std::string_view line, std::size_t at, bool human) {
  const auto skips = [](char c) {
    return c == ' ' || c == '\t' || c == '=' || c == ':' || c == '\'' || c == '"' || c == '(';
  };
  // Dots lead up to a value: "batch-generator ........: (1.0, 2.0)".
  while (at < line.size() &&
         (skips(line[at]) || (line[at] == '.' && at + 1 < line.size() && !IsDigit(line[at + 1])))) {
    ++at;
  }
  if (at >= line.size()) return std::nullopt;
  const bool pair = at > 0 && line[at - 1] == '(';
  const std::string_view text = DigitsAt(line, at);
  std::optional<double> number = Parse(text);
  if (!number) return std::nullopt;
  const std::size_t end = at + text.size();
  if (human && end < line.size()) *number *= HumanFactor(line[end]);
  if (pair && end + 1 < line.size() && line[end] == ',' && line[end + 1] == ' ') {
    const auto second = Parse(DigitsAt(line, end + 2));
    if (second) *number = std::max(*number, *second);
  }
  return number;
}

std::optional<double> NumberBefore(std::string_view line, std::size_t at) {
  std::size_t start = at;
  while (start > 0 && at - start < kMaxDigits &&
         (IsDigit(line[start - 1]) || line[start - 1] == '.')) {
    --start;
  }
  if (start == at) return std::nullopt;
  return Parse(line.substr(start, at - start));
}

}  // namespace foretrain
