// Reads tables in CSV (RFC 4180) into cells of text, each with its place for messages. Leaves out
// files and what the cells mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct CsvLimits {
  std::size_t text_bytes = std::size_t{4} << 20;
  std::size_t cell_bytes = std::size_t{64} << 10;
  std::size_t columns = 256;
  std::size_t rows = 100'000;
};

struct CsvRow {
  int line = 0;                    // in the file, from 1: where the row starts
  std::vector<std::string> cells;  // as many as there are columns
};

struct CsvTable {
  std::string file;  // for messages
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  // The number of the column `name`, or -1.
  int Column(std::string_view name) const;
};

// The table in `text`: a header line with unique names, then rows with as many cells. Cells are
// separated by commas; one in double quotes may hold commas, line ends and doubled quotes. Lines
// end in LF or CRLF; empty ones and a leading byte order mark are passed over.
//
//   file  where `text` comes from, for messages
//
// Errors: kCorruptInput, naming file, line and column: an unclosed quote, text after a closing
// quote, a quote inside a cell that is not quoted, a control character, another number
// of cells than columns, an empty or repeated column name, no header, or more than `limits` allow.
// O(bytes); safe from any thread.
Result<CsvTable> ParseCsv(std::string_view text, std::string_view file,
                          const CsvLimits& limits = {});

// Reads the cells of one row by column name. A column that the table lacks reads as an empty cell.
class CsvReader {
 public:
  // Borrows both for its life.
  CsvReader(const CsvTable& table, const CsvRow& row) : table_(table), row_(row) {}

  // The cell without the spaces around it.
  std::string_view Text(std::string_view column) const;
  // The cell as an integer from `low` to `high`; an empty one is an Error.
  Result<std::int64_t> Count(std::string_view column, std::int64_t low, std::int64_t high) const;
  // The cell as a number from 0 to 1e15; `if_empty` for an empty one.
  Result<double> Number(std::string_view column, double if_empty) const;
  // The cell as 0 or 1; `if_empty` for an empty one.
  Result<bool> Flag(std::string_view column, bool if_empty) const;
  // "hardware.csv line 12, column mem_gb": how messages about a cell start.
  std::string Place(std::string_view column) const;

 private:
  const CsvTable& table_;
  const CsvRow& row_;
};

}  // namespace foretrain
