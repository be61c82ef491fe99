// The tables and views of a store, and the checks a file passes before anything in it is believed.
// Leaves out reading and writing of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

inline constexpr std::int64_t kSchemaVersion = 1;           // PRAGMA user_version
inline constexpr std::int64_t kApplicationId = 0x46547261;  // PRAGMA application_id: "FTra"

struct OpenRequest {
  std::string path;
  OpenMode mode = OpenMode::kRead;  // kRead falls back to kReadFixed on read-only media
  std::string vfs{};
  std::int64_t most_checked_bytes = 0;  // files up to this size are checked whole
};

// Opens a store and makes sure that it is one: a regular file that is an SQLite database of
// foretrain, in a schema that this foretrain knows, with exactly its tables. kCreate makes the
// tables in a new or empty file. Errors: those of Store::Open and StoreReader::Open.
Result<std::unique_ptr<Database>> OpenStore(const OpenRequest& request);

}  // namespace foretrain::store_internal
