// The table v_exposed of a query: for each rank, step and class of spans the time in which the
// class runs, and the part that no other class hides. SQL would need seconds for what intervals
// give in milliseconds.
#pragma once

#include <optional>

#include "base/result.h"
#include "traces/store.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// The inputs of the table, and the Error of its reads. Outlives the connection it is made in.
struct ExposedSource {
  const StoreReader* reader = nullptr;  // a connection of its own
  LoadOptions load{};                   // with `cancelled`; ranks are chosen by the table
  std::optional<Error> error{};         // of the read that ended a query
};

// Makes temp.v_exposed(run_id, rank, step, class, busy_ns, exposed_ns). A query that names the run
// or the rank reads only that; spans are read and verified rank by rank.
Result<void> MakeExposedTable(const Database& database, ExposedSource& source);

}  // namespace foretrain::store_internal
