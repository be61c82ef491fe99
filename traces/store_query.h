// One SELECT of a user over the views of a store (docs/sql.md). It can change nothing and calls
// only harmless functions; its rows, time, memory and texts are bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct QueryOptions {
  std::int64_t max_rows = 1000;
  double max_seconds = 30;
  std::size_t max_text_bytes = 65'536;  // of one value; a longer one is cut and ends in "..."
  // Called now and then; returning true ends the query with kAborted.
  std::function<bool()> cancelled{};
};

// std::monostate is NULL. A blob is the text "(blob of N bytes)".
using QueryValue = std::variant<std::monostate, std::int64_t, double, std::string>;

struct QueryAnswer {
  std::vector<std::string> columns{};
  std::vector<std::vector<QueryValue>> rows{};
  bool more = false;  // rows beyond max_rows exist and were left out
};

// Runs `sql`, one SELECT (or WITH, VALUES, EXPLAIN), on the store at `path`. It sees the views that
// docs/sql.md lists and the tables under them; the views of the file itself are never used. Rows
// are not compared with their checksums, except by v_exposed.
//
// Errors: those of StoreReader::Open; kInvalidArgument, not one statement that only reads, or an
// error of the query (with SQLite's text); kTimeout; kResourceExhausted, more than 1 GiB of memory;
// kAborted. Safe from any thread.
Result<QueryAnswer> QueryStore(const std::string& path, std::string_view sql,
                               const QueryOptions& options = {});

// The views and columns of QueryStore. Views of the rows: the texts live as long as the program.
struct QueryColumn {
  std::string_view name;
  std::string_view meaning;  // with the unit
};
struct QueryView {
  std::string_view name;
  std::string_view row;  // the view has one row for each of these
  std::vector<QueryColumn> columns{};
};
std::vector<QueryView> QueryViews();

}  // namespace foretrain
