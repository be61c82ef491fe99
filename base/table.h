// Plain-text tables for a terminal. A cell is one line; there is no colour and no wrapping.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

enum class Align { kLeft, kRight };

// Rows under titles, each column as wide as its widest cell and two spaces apart:
//
//   plan        step  memory
//   ----------------------------
//   dp4 tp2   1.23 s  71.3 GiB
//
// Width counts UTF-8 characters, one column each. Control bytes appear as \xNN. Not thread-safe.
class Table {
 public:
  // A title that starts with ">" aligns its column to the right, for numbers; the ">" is not shown.
  explicit Table(const std::vector<std::string>& titles);

  // Cuts longer cells of the column to `characters`; they end in "...".
  void LimitWidth(std::string_view title, int characters);

  // Adds a row. Missing cells are empty; more cells than columns is a bug.
  void AddRow(std::vector<std::string> cells);

  // Adds a horizontal line, e.g. above a total.
  void AddLine();

  bool empty() const { return rows_.empty(); }

  // The table as text. Each line starts with `indent` spaces; trailing spaces are removed.
  std::string Text(int indent = 0) const;

 private:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    int max_width = 0;  // 0: no limit
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a horizontal line
};

// Width of `text` in characters (UTF-8 code points).
int TextWidth(std::string_view text);

// `text` padded with spaces to `width` characters.
std::string Pad(std::string_view text, int width, Align align);

}  // namespace foretrain
