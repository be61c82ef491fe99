// The views over a store's tables: their SQL, and what their columns mean. docs/sql.md describes
// them for users.
#pragma once

#include <string>

#include "traces/store_query.h"

namespace foretrain::store_internal {

// CREATE VIEW of the views that every store contains, for any SQLite client.
extern const char* const kFileViews;

// CREATE TEMP VIEW of all of QueryViews() but v_exposed and v_kernel. A query uses these and never
// those of a file, which may come from elsewhere: a temporary view hides the file's of the same
// name.
std::string TempViewsSql();

}  // namespace foretrain::store_internal
