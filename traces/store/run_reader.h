// Reads the rows of a run back and checks that they are those that were written. Leaves out which
// runs there are (traces/store/reader.cc).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/run.h"
#include "traces/store.h"
#include "traces/store/rows.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// Loads what `options` select of the timeline of run `info` into a sorted Timeline, inside the
// caller's transaction. Errors: kCorruptInput, naming run and batch; kAborted; kIo.
Result<Timeline> LoadTimeline(const Database& database, const RunInfo& info,
                              const LoadOptions& options);

// "FILE: run 3 (label): " and what is wrong: the start of each message about a stored run.
std::string RunText(const Database& database, const RunInfo& info);

}  // namespace foretrain::store_internal
