// Reads CSV tables (RFC 4180) into text cells, each with its position for messages.
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
  int line = 0;                    // line in the file where the row starts, from 1
  std::vector<std::string> cells;  // as many as there are columns
};

struct CsvTable {
  std::string file;  // for messages
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  // Index of the column `name`, or -1.
  int Column(std::string_view name) const;
};

// Parses a table: a header line with unique names, then rows with as many cells. Commas separate
// cells. A cell in double quotes may hold commas, line ends and doubled quotes. Lines end in LF or
// CRLF. Empty lines and a leading byte order mark are skipped.
//
//   file  source of `text`, for messages
//
// Errors: kCorruptInput, naming file, line and column:
//   - an unclosed quote, text after a closing quote, or a quote inside an unquoted cell;
//   - a control character;
//   - a row with too few or too many cells;
//   - no header, or an empty or repeated column name;
//   - more than `limits` allow.
// O(bytes); safe from any thread.
Result<CsvTable> ParseCsv(std::string_view text, std::string_view file,
                          const CsvLimits& limits = {});

// Reads the cells of one row by column name. A column that the table lacks reads as an empty cell.
class CsvReader {
 public:
  // Both must outlive the reader.
  CsvReader(const CsvTable& table, const CsvRow& row) : table_(table), row_(row) {}

  // The cell without surrounding spaces.
  std::string_view Text(std::string_view column) const;
  // The cell as an integer from `low` to `high`; an empty cell is an Error.
  Result<std::int64_t> Count(std::string_view column, std::int64_t low, std::int64_t high) const;
  // The cell as a number from 0 to 1e15; `if_empty` if it is empty.
  Result<double> Number(std::string_view column, double if_empty) const;
  // The cell as 0 or 1; `if_empty` if it is empty.
  Result<bool> Flag(std::string_view column, bool if_empty) const;
  // "hardware.csv line 12, column mem_gb": start of messages about a cell.
  std::string Place(std::string_view column) const;

 private:
  const CsvTable& table_;
  const CsvRow& row_;
};

}  // namespace foretrain
