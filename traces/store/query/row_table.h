// A table of a query whose rows are made while it is read: a virtual table of SQLite over a scan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// A value of a row; monostate is NULL.
using RowValue = std::variant<std::monostate, std::int64_t, double, std::string>;

class RowScan {
 public:
  virtual ~RowScan() = default;

  // Begins anew. `asked`: for each key of the table the number that the query asks for, if any;
  // rows with other numbers may be left out.
  virtual Result<void> Begin(const std::vector<std::optional<std::int64_t>>& asked) = 0;
  virtual Result<void> Next() = 0;
  virtual bool AtEnd() const = 0;
  virtual RowValue At(int column) const = 0;
};

struct RowTable {
  const char* module = nullptr;   // its name
  const char* columns = nullptr;  // "CREATE TABLE x(...)"
  // "CREATE VIRTUAL TABLE temp.NAME USING module": in the temporary schema it hides a table of this
  // name in the file.
  const char* create = nullptr;
  std::vector<int> keys{};  // columns by which a scan reads less
  std::function<std::unique_ptr<RowScan>()> scan{};
  std::optional<Error>* error = nullptr;  // gets the Error of the scan that ended a query
};

// Makes the table on the connection, which `table.error` outlives. Errors: SQLite's.
Result<void> MakeRowTable(const Database& database, RowTable table);

}  // namespace foretrain::store_internal
