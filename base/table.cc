#include "base/table.h"

#include <algorithm>
#include <cstddef>

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

// The words of `text` in lines of at most `width` characters; lines after the first start with two
// spaces. A longer word has a line of its own.
std::vector<std::string> Wrapped(const std::string& text, int width) {
  std::vector<std::string> lines = {""};
  bool empty = true;  // the last line has no word yet
  for (const std::string_view word : Split(text, ' ')) {
    if (!empty && TextWidth(lines.back()) + 1 + TextWidth(word) > width) {
      lines.emplace_back("  ");
      empty = true;
    }
    if (!empty) lines.back() += ' ';
    lines.back() += word;
    empty = false;
  }
  return lines;
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

void Table::DropFirst(std::initializer_list<std::string_view> titles) {
  for (const std::string_view title : titles) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].title == title) dropped_first_.push_back(i);
    }
  }
}

void Table::Wrap(std::string_view title) {
  for (Column& column : columns_) {
    if (column.title == title) column.wraps = true;
  }
}

// Cells are made printable here, so no text of an input reaches the terminal raw.
void Table::AddRow(std::vector<std::string> cells) {
  FT_CHECK(cells.size() <= columns_.size() && !columns_.empty());
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = Printable(cell, kMaxBytes);
  rows_.push_back(std::move(cells));
}

void Table::AddLine() { rows_.emplace_back(); }

// Cells whole if `limit` is 0; otherwise cut to the column's own limit and, if the column wraps,
// broken into lines of at most `limit` characters.
Table::Printed Table::Print(std::size_t column, int limit) const {
  const Column& of = columns_[column];
  Printed out{&of, {}, TextWidth(of.title)};
  for (const auto& row : rows_) {
    std::vector<std::string>& lines = out.cells.emplace_back();
    if (row.empty()) continue;
    const std::string cell = limit == 0 ? row[column] : Shortened(row[column], of.max_width);
    lines = of.wraps && limit > 0 ? Wrapped(cell, limit) : std::vector<std::string>{cell};
    for (const std::string& line : lines) out.width = std::max(out.width, TextWidth(line));
  }
  return out;
}

// Columns as they are first; then those of DropFirst go until the rest fits; then columns that wrap
// give up what is still too much, down to kMinWrapped characters each.
std::vector<Table::Printed> Table::Fit(int room) const {
  constexpr int kMinWrapped = 24, kUnbroken = 1 << 20;
  std::vector<Printed> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    shown.push_back(Print(i, room == 0 ? 0 : kUnbroken));
  }
  if (room == 0) return shown;
  for (const std::size_t dropped : dropped_first_) {
    if (WidthOf(shown) <= room) break;
    std::erase_if(shown, [&](const Printed& one) { return one.column == &columns_[dropped]; });
  }
  for (Printed& one : shown) {
    const int excess = WidthOf(shown) - room;
    if (excess <= 0 || !one.column->wraps) continue;
    const auto at = static_cast<std::size_t>(one.column - columns_.data());
    one = Print(at, std::max(kMinWrapped, one.width - excess));
  }
  return shown;
}

int Table::WidthOf(const std::vector<Printed>& columns) {
  int sum = columns.empty() ? 0 : 2 * (static_cast<int>(columns.size()) - 1);
  for (const Printed& column : columns) sum += column.width;
  return sum;
}

// A row has as many lines as its longest cell.
std::string Table::Text(int indent, int width) const {
  const std::vector<Printed> shown = Fit(width == 0 ? 0 : std::max(1, width - indent));
  const std::string left(static_cast<std::size_t>(indent), ' ');
  const std::string rule = left + std::string(static_cast<std::size_t>(WidthOf(shown)), '-') + "\n";

  std::string text;
  const auto add = [&](auto&& cell_of) {
    std::string row = left;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      if (i > 0) row.append("  ");
      row.append(Pad(cell_of(shown[i]), shown[i].width, shown[i].column->align));
    }
    EndLine(row);
    text.append(row);
  };
  add([](const Printed& column) -> std::string_view { return column.column->title; });
  text.append(rule);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].empty()) {
      text.append(rule);
      continue;
    }
    std::size_t lines = 1;
    for (const Printed& column : shown) lines = std::max(lines, column.cells[r].size());
    for (std::size_t line = 0; line < lines; ++line) {
      add([r, line](const Printed& column) -> std::string_view {
        return line < column.cells[r].size() ? column.cells[r][line] : std::string_view();
      });
    }
  }
  return text;
}

std::string Table::Csv() const {
  std::string text;
  const auto add = [&text](std::size_t i, const std::string& cell) {
    if (i > 0) text += ',';
    text += CsvCell(cell);
  };
  for (std::size_t i = 0; i < columns_.size(); ++i) add(i, columns_[i].title);
  text += '\n';
  for (const auto& row : rows_) {
    if (row.empty()) continue;
    for (std::size_t i = 0; i < row.size(); ++i) add(i, row[i]);
    text += '\n';
  }
  return text;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace foretrain
