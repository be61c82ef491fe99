#include "ui/view_model/glossary.h"

#include <map>

#include "base/text.h"
#include "ui/embedded_data.h"

namespace foretrain::ui {
namespace {

// An entry is one paragraph that opens with "**term**: ". Everything else is for readers of the
// page.
std::map<std::string_view, std::string_view> ReadEntries() {
  constexpr std::string_view kMark = "**", kEnd = "**: ";
  std::map<std::string_view, std::string_view> entries;
  const EmbeddedFile* const file = FindEmbedded(ui_data::Files(), "docs/glossary.md");
  if (file == nullptr) return entries;
  for (const std::string_view line : Split(file->text, '\n')) {
    const std::size_t end = line.find(kEnd);
    if (!line.starts_with(kMark) || end == std::string_view::npos) continue;
    entries.emplace(line.substr(kMark.size(), end - kMark.size()), line.substr(end + kEnd.size()));
  }
  return entries;
}

}  // namespace

std::string_view DefinitionOf(std::string_view term) {
  static const std::map<std::string_view, std::string_view> entries = ReadEntries();
  const auto at = entries.find(term);
  return at == entries.end() ? std::string_view() : at->second;
}

}  // namespace foretrain::ui
