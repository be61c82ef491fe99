// Tables and views of a store, and the checks that a file must pass before its contents are
// trusted.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

inline constexpr std::int64_t kSchemaVersion = 2;           // PRAGMA user_version
inline constexpr std::int64_t kApplicationId = 0x46547261;  // PRAGMA application_id: "FTra"

// Tables whose rows of a run are counted when it ends, because damage may take whole rows, whose
// sums go with them. Each has the query that counts them.
struct CountedTable {
  const char* name;
  const char* sql;
};
inline constexpr std::array<CountedTable, 6> kCountedTables{{
    {"step", "SELECT count(*) FROM step WHERE run_id = ?"},
    {"op_name", "SELECT count(*) FROM op_name WHERE run_id = ?"},
    {"metric", "SELECT count(*) FROM metric WHERE run_id = ?"},
    {"clock", "SELECT count(*) FROM clock WHERE run_id = ?"},
    {"note", "SELECT count(*) FROM note WHERE run_id = ?"},
    {"counter", "SELECT count(*) FROM counter WHERE run_id = ?"},
}};
// The attachment with their numbers, in this order, each followed by a space.
inline constexpr std::string_view kCountsAttachment = "row_counts";

// How the message ends of a run whose process died: "process 7" is before it.
inline constexpr std::string_view kDiedRecording =
    ", which recorded it, ended without finishing it";

// Rows of the run in each of kCountedTables, as kCountsAttachment has them. O(rows).
Result<std::string> CountRows(const Database& database, std::int64_t run);

struct OpenRequest {
  std::string path;
  OpenMode mode = OpenMode::kRead;  // kRead falls back to kReadFixed on read-only media
  std::string vfs{};
  std::int64_t max_checked_bytes = 0;  // files up to this size are checked completely
};

// Opens a store after checking that it is a regular file, an SQLite database of foretrain, in a
// known schema, with exactly its tables. kCreate creates the tables in a new or empty file. A store
// of an older schema is opened as it is. Errors: those of Store::Open and StoreReader::Open.
Result<std::unique_ptr<Database>> OpenStore(const OpenRequest& request);

// Brings a store of an older schema to kSchemaVersion; does nothing to a newer one. To call inside
// a transaction in which no other process records: a crash then leaves the old schema or the new
// one. Takes the same short time for any number of rows.
Result<void> Migrate(const Database& database);

}  // namespace foretrain::store_internal
