#include "sim/config/csv.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Walks over `text` once and cuts it into rows.
class Cutter {
 public:
  Cutter(std::string_view text, std::string_view file, const CsvLimits& limits)
      : text_(text), file_(file), limits_(limits) {}

  bool AtEnd() const { return at_ == text_.size(); }

  // Reads one row, which may span lines. A row with one empty cell is an empty line.
  Result<CsvRow> Row() {
    CsvRow row;
    row.line = line_;
    for (;;) {
      if (row.cells.size() == limits_.columns) {
        return Bad(row, fmt::format("more than {} columns", limits_.columns));
      }
      row.cells.emplace_back();
      FT_TRY(Cell(row));
      if (AtEnd()) return row;
      const char end = text_[at_++];
      if (end == ',') continue;
      if (end == '\r') ++at_;  // AtCellEnd stops only at "\r\n"
      ++line_;
      return row;
    }
  }

 private:
  // Errors name the line where the row starts and the column of the current cell.
  tl::unexpected<Error> Bad(const CsvRow& row, std::string_view what) const {
    return Fail(ErrorCode::kCorruptInput,
                fmt::format("{} line {}, column {}: {}", file_, line_, row.cells.size(), what));
  }

  // A lone "\r" is part of the cell; only "\r\n" ends a line.
  bool AtCellEnd() const {
    if (AtEnd() || text_[at_] == ',' || text_[at_] == '\n') return true;
    return text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
  }

  // Takes one character into the current cell, after the checks of control characters and length.
  Result<void> Take(CsvRow& row) {
    const char c = text_[at_++];
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (control && c != '\n' && c != '\r' && c != '\t') {
      return Bad(row, fmt::format("holds a control character (code {}); take it out", int{c}));
    }
    if (row.cells.back().size() == limits_.cell_bytes) {
      return Bad(row, fmt::format("a cell is longer than {} bytes", limits_.cell_bytes));
    }
    if (c == '\n') ++line_;
    row.cells.back().push_back(c);
    return {};
  }

  // A quote may only open a cell; elsewhere it is an error, not text.
  Result<void> Cell(CsvRow& row) {
    if (!AtEnd() && text_[at_] == '"') return QuotedCell(row);
    while (!AtCellEnd()) {
      if (text_[at_] == '"') {
        return Bad(row, "a quote inside a cell; put the whole cell in quotes and double the quote");
      }
      FT_TRY(Take(row));
    }
    return {};
  }

  // A doubled quote stands for one quote; any other quote ends the cell.
  Result<void> QuotedCell(CsvRow& row) {
    const int opened = line_;
    ++at_;
    for (;;) {
      if (AtEnd())
        return Bad(row, fmt::format("the quote opened in line {} is not closed", opened));
      if (text_[at_] != '"') {
        FT_TRY(Take(row));
        continue;
      }
      ++at_;
      if (AtEnd() || text_[at_] != '"') break;
      FT_TRY(Take(row));
    }
    if (!AtCellEnd())
      return Bad(row, "text after a closing quote; a comma or a line end must follow");
    return {};
  }

  std::string_view text_, file_;
  const CsvLimits& limits_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// Column names must be unique, because cells are read by name.
Result<void> CheckHeader(const CsvTable& table, int line) {
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string& name = table.columns[i];
    const std::string place = fmt::format("{} line {}, column {}", table.file, line, i + 1);
    if (name.empty()) return Fail(ErrorCode::kCorruptInput, place + ": the column has no name");
    if (!seen.insert(name).second) {
      return Fail(ErrorCode::kCorruptInput,
                  fmt::format("{}: \"{}\" names two columns", place, Printable(name)));
    }
  }
  return {};
}

}  // namespace

// Linear search: tables have few columns.
int CsvTable::Column(std::string_view name) const {
  const auto at = std::find(columns.begin(), columns.end(), name);
  return at == columns.end() ? -1 : static_cast<int>(at - columns.begin());
}

// Limits are checked before anything is stored, so a hostile file cannot exhaust memory.
Result<CsvTable> ParseCsv(std::string_view text, std::string_view file, const CsvLimits& limits) {
  CsvTable table;
  table.file = Printable(file, 200);
  const auto bad = [&](std::string_view what) {
    return Fail(ErrorCode::kCorruptInput, fmt::format("{}: {}", table.file, what));
  };
  if (text.size() > limits.text_bytes) {
    return bad(fmt::format("{} bytes long, at most {} are read", text.size(), limits.text_bytes));
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Cutter cutter(text, table.file, limits);
  while (!cutter.AtEnd()) {
    FT_ASSIGN(CsvRow row, cutter.Row());
    if (row.cells.size() == 1 && Trim(row.cells[0]).empty()) continue;
    if (table.columns.empty()) {
      for (const std::string& cell : row.cells) table.columns.emplace_back(Trim(cell));
      FT_TRY(CheckHeader(table, row.line));
      continue;
    }
    if (row.cells.size() != table.columns.size()) {
      return bad(fmt::format("line {} has {} cells, the header has {} columns", row.line,
                             row.cells.size(), table.columns.size()));
    }
    if (table.rows.size() == limits.rows) return bad(fmt::format("more than {} rows", limits.rows));
    table.rows.push_back(std::move(row));
  }
  if (table.columns.empty()) return bad("is empty; the first line must name the columns");
  return table;
}

// A missing column reads as empty cells, so optional columns need no test.
std::string_view CsvReader::Text(std::string_view column) const {
  const int at = table_.Column(column);
  return at < 0 ? std::string_view() : Trim(row_.cells[static_cast<std::size_t>(at)]);
}

Result<std::int64_t> CsvReader::Count(std::string_view column, std::int64_t low,
                                      std::int64_t high) const {
  return ParseInt(Place(column), Text(column), low, high);
}

Result<double> CsvReader::Number(std::string_view column, double if_empty) const {
  const std::string_view text = Text(column);
  if (text.empty()) return if_empty;
  return ParseNumber(Place(column), text, 0, 1e15);
}

Result<bool> CsvReader::Flag(std::string_view column, bool if_empty) const {
  const std::string_view text = Text(column);
  if (text.empty()) return if_empty;
  if (text == "0" || text == "1") return text == "1";
  return Refuse("{}: \"{}\" must be 0 or 1", Place(column), Printable(text));
}

std::string CsvReader::Place(std::string_view column) const {
  return fmt::format("{} line {}, column {}", table_.file, row_.line, column);
}

}  // namespace foretrain
