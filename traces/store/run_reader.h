// Reads the rows of a run back and verifies that they are those written.
#pragma once

#include <string>

#include "base/result.h"
#include "traces/run.h"
#include "traces/store.h"
#include "traces/store/rows.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// Loads the part of run `info` selected by `options` as a sorted Timeline, inside the caller's
// transaction. Errors: kCorruptInput, naming run and batch; kAborted; kIo.
Result<Timeline> LoadTimeline(const Database& database, const RunInfo& info,
                              const LoadOptions& options);

// The error for a row whose checksum differs: `what` names it.
tl::unexpected<Error> DamagedRow(const Database& database, const RunInfo& info,
                                 const std::string& what);

// "FILE: run 3 (label): ", the start of each message about a stored run.
std::string RunText(const Database& database, const RunInfo& info);

}  // namespace foretrain::store_internal
