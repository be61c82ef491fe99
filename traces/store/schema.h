// Tables and views of a store, and the checks that a file must pass before its contents are
// trusted.
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
  std::int64_t max_checked_bytes = 0;  // files up to this size are checked completely
};

// Opens a store after checking that it is a regular file, an SQLite database of foretrain, in a
// known schema, with exactly its tables. kCreate creates the tables in a new or empty file. Errors:
// those of Store::Open and StoreReader::Open.
Result<std::unique_ptr<Database>> OpenStore(const OpenRequest& request);

}  // namespace foretrain::store_internal
