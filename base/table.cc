#include "base/table.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kMostBytes = 4096;  // of one cell

// At most `width` characters of `text`; 0 is no limit.
std::string Shortened(const std::string& text, int width) {
  if (width == 0 || TextWidth(text) <= width) return text;
  const int keep = std::max(0, width - 3);
  std::size_t end = 0;
  for (int seen = 0; end < text.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (starts && seen++ == keep) break;
  }
  return text.substr(0, end) + std::string("...").substr(0, static_cast<std::size_t>(width - keep));
}

void EndLine(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text.push_back('\n');
}

}  // namespace

int TextWidth(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

std::string Pad(std::string_view text, int width, Align align) {
  const std::string spaces(static_cast<std::size_t>(std::max(0, width - TextWidth(text))), ' ');
  return align == Align::kLeft ? std::string(text) + spaces : spaces + std::string(text);
}

Table::Table(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) {
  FT_CHECK(cells.size() <= columns_.size() && !columns_.empty());
  cells.resize(columns_.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i] = Shortened(Printable(cells[i], kMostBytes), columns_[i].max_width);
  }
  rows_.push_back(std::move(cells));
}

void Table::AddLine() { rows_.emplace_back(); }

std::string Table::Text(int indent) const {
  std::vector<int> widths;
  int total = columns_.empty() ? 0 : 2 * (static_cast<int>(columns_.size()) - 1);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int width = TextWidth(columns_[i].title);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, TextWidth(row[i]));
    }
    widths.push_back(width);
    total += width;
  }
  const std::string left(static_cast<std::size_t>(indent), ' ');
  const std::string line = left + std::string(static_cast<std::size_t>(total), '-') + "\n";

  std::string text;
  const auto add = [&](auto&& cell_at) {
    std::string row = left;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) row.append("  ");
      row.append(Pad(cell_at(i), widths[i], columns_[i].align));
    }
    EndLine(row);
    text.append(row);
  };
  add([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  text.append(line);
  for (const auto& row : rows_) {
    if (row.empty()) {
      text.append(line);
    } else {
      add([&](std::size_t i) -> const std::string& { return row[i]; });
    }
  }
  return text;
}

}  // namespace foretrain
