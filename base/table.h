// Plain-text tables for a terminal, and the same as CSV. There is no colour.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

enum class Align { kLeft, kRight };

inline constexpr int kTableWidth = 120;  // characters of a line, unless a caller says otherwise

// Rows under titles, each column as wide as its widest cell and two spaces apart:
//
//   plan        step  memory
//   ----------------------------
//   dp4 tp2   1.23 s  71.3 GiB
//
// Width counts UTF-8 characters, one column each. Control bytes appear as \xNN. A table that is too
// wide loses the columns of DropFirst, then breaks the cells of Wrap. Not thread-safe.
class Table {
 public:
  // A title that starts with ">" aligns its column to the right, for numbers; the ">" is not shown.
  explicit Table(const std::vector<std::string>& titles);

  // Cuts longer cells of the column to `characters`; they end in "...".
  void LimitWidth(std::string_view title, int characters);

  // Columns that are left out, in this order, while the lines are too long.
  void DropFirst(std::initializer_list<std::string_view> titles);

  // Breaks cells of the column at spaces if the lines are too long after that; the rest of a cell
  // follows below it, indented by two.
  void Wrap(std::string_view title);

  // Adds a row. Missing cells are empty; more cells than columns is a bug.
  void AddRow(std::vector<std::string> cells);

  // Adds a horizontal line, e.g. above a total.
  void AddLine();

  bool empty() const { return rows_.empty(); }

  // The table as text. Each line starts with `indent` spaces; trailing spaces are removed.
  //
  //   width  characters of a line; 0: all columns and whole cells, however long the lines become
  std::string Text(int indent = 0, int width = kTableWidth) const;

  // Titles and rows as CSV (RFC 4180), without lines, all cells whole.
  std::string Csv() const;

 private:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    int max_width = 0;  // 0: no limit
    bool wraps = false;
  };
  // One column as it is printed: its cells, one for each row, each of one or more lines.
  struct Printed {
    const Column* column = nullptr;
    std::vector<std::vector<std::string>> cells;
    int width = 0;
  };

  Printed Print(std::size_t column, int limit) const;
  // The columns in at most `room` characters, if that is possible; 0: all of them, whole.
  std::vector<Printed> Fit(int room) const;
  static int WidthOf(const std::vector<Printed>& columns);

  std::vector<Column> columns_;
  std::vector<std::size_t> dropped_first_;      // columns, in this order
  std::vector<std::vector<std::string>> rows_;  // an empty row is a horizontal line
};

// `text` as a cell of CSV: in quotes if it has commas, quotes or line breaks (RFC 4180).
std::string CsvCell(const std::string& text);

// Width of `text` in characters (UTF-8 code points).
int TextWidth(std::string_view text);

// `text` padded with spaces to `width` characters.
std::string Pad(std::string_view text, int width, Align align);

}  // namespace foretrain
