#include "base/table.h"

#include <algorithm>

#include "base/result.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxBytes = 4096;  // of one cell

// At most `width` characters of `text`, cut at a character's start; 0 means no limit.
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

// Ends a line without trailing spaces, so that output can be compared with golden files.
void EndLine(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text.push_back('\n');
}

}  // namespace

// Counts every byte that is not a UTF-8 continuation byte.
int TextWidth(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

// Text that is wider than the column stays as it is.
std::string Pad(std::string_view text, int width, Align align) {
  const std::string spaces(static_cast<std::size_t>(std::max(0, width - TextWidth(text))), ' ');
  return align == Align::kLeft ? std::string(text) + spaces : spaces + std::string(text);
}

Table::Table(const std::vector<std::string>& titles) {
  for (const std::string& title : titles) {
    const bool right = title.starts_with('>');
    columns_.push_back({title.substr(right ? 1 : 0), right ? Align::kRight : Align::kLeft});
  }
}

void Table::LimitWidth(std::string_view title, int characters) {
  for (Column& column : columns_) {
    if (column.title == title) column.max_width = characters;
  }
}

// Cells are made printable here, so no text of an input reaches the terminal raw.
void Table::AddRow(std::vector<std::string> cells) {
  FT_CHECK(cells.size() <= columns_.size() && !columns_.empty());
  cells.resize(columns_.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i] = Shortened(Printable(cells[i], kMaxBytes), columns_[i].max_width);
  }
  rows_.push_back(std::move(cells));
}

void Table::AddLine() { rows_.emplace_back(); }

// Two passes: the widest cell of each column first, then the lines.
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
  // Titles and rows differ only in where a cell comes from.
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
