// The table v_kernel of a query: the kernels of runs, which the store keeps as one attachment a
// run.
#pragma once

#include <optional>

#include "base/result.h"
#include "traces/store.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// The inputs of the table, and the Error of its reads. Outlives the connection it is made in.
struct KernelSource {
  const StoreReader* reader = nullptr;  // a connection of its own
  LoadOptions load{};                   // with `cancelled`
  std::optional<Error> error{};         // of the read that ended a query
};

// Makes temp.v_kernel: one row for all calls of a kernel that were launched alike, with the columns
// that QueryViews() lists. A query that names the run reads only that.
Result<void> MakeKernelTable(const Database& database, KernelSource& source);

}  // namespace foretrain::store_internal
