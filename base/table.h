// Plain-text tables for a terminal. Leaves out colour and wrapping; a cell is one line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

enum class Align { kLeft, kRight };

struct TableColumn {
  std::string title;
  Align align = Align::kLeft;  // kRight for numbers
  int max_width = 0;           // characters; a longer cell ends in "..."; 0: as wide as it needs
};

// Rows under titles, each column as wide as its widest cell and two spaces apart:
//
//   plan        step  memory
//   ----------------------------
//   dp4 tp2   1.23 s  71.3 GiB
//
// Width counts UTF-8 characters, each as one. Control bytes are shown as \xNN. Not thread-safe.
class Table {
 public:
  explicit Table(std::vector<TableColumn> columns);

  // One cell a column; missing ones are empty, more than there are columns is a bug.
  void AddRow(std::vector<std::string> cells);

  // A line across, e.g. above a sum.
  void AddLine();

  bool empty() const { return rows_.empty(); }

  // Each line starts with `indent` spaces and ends with a newline, without spaces before it.
  std::string Text(int indent = 0) const;

 private:
  std::vector<TableColumn> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a line
};

// Width of `text` in characters (UTF-8 code points).
int TextWidth(std::string_view text);

// `text` filled up with spaces to `width` characters.
std::string Pad(std::string_view text, int width, Align align);

}  // namespace foretrain
