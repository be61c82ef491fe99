// Values of one row, in both directions.

#include "base/text.h"
#include "sim/config/launch/read_launch.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Switches are written in several ways: "True" of Python, "on" of foretrain.
std::string Plain(std::string_view text) {
  const std::string lower = ToLower(Trim(text));
  if (lower == "true" || lower == "false") return lower;
  return std::string(Trim(text));
}

Result<std::string> Translate(const DialectRow& row, std::string_view text, bool to_ours) {
  std::vector<std::string> names;
  for (const auto& [theirs, ours] : row.values) {
    if (SameValue(to_ours ? theirs : ours, text)) return to_ours ? ours : theirs;
    names.push_back(to_ours ? theirs : ours);
  }
  if (row.values.empty() || row.is_open) return std::string(text);
  return Refuse("\"{}\" is none of {}", Printable(text), Join(names, ", "));
}

Result<std::string> TranslateList(const DialectRow& row, std::string_view text, bool to_ours) {
  std::string spaced(text);
  for (char& c : spaced) {
    if (c == ',' || c == '[' || c == ']') c = ' ';
  }
  std::vector<std::string> words;
  for (const std::string_view word : Split(spaced, ' ')) {
    if (word.empty()) continue;
    FT_ASSIGN(std::string translated, Translate(row, word, to_ours));
    words.push_back(std::move(translated));
  }
  return Join(words, to_ours ? "," : " ");
}

}  // namespace

Result<std::string> OursOf(const DialectRow& row, std::string_view theirs) {
  const std::string text = Plain(theirs);
  if (row.is_part) {
    const std::string lower = ToLower(text);
    for (const auto& [part, ours] : row.values) {
      if (lower.find(part) != std::string::npos) return ours;
    }
    return std::string();
  }
  if (row.is_list) return TranslateList(row, text, true);
  FT_ASSIGN(std::string ours, Translate(row, text, true));
  if (row.scale != 1 && !ours.empty()) {
    FT_ASSIGN(const double number, ParseNumber("value", ours, -1e15, 1e15));
    ours = NumberInFile(number * row.scale);
  }
  return ours;
}

Result<std::string> TheirsOf(const DialectRow& row, std::string_view ours) {
  if (row.is_list) return TranslateList(row, ours, false);
  std::string text(ours);
  if (row.scale != 1) {
    FT_ASSIGN(const double number, ParseNumber("value", ours, -1e18, 1e18));
    text = NumberInFile(number / row.scale);
  }
  return Translate(row, text, false);
}

}  // namespace foretrain
