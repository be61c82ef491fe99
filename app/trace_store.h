// The store of a trace that someone opens as if it were one. Leaves out reading traces
// (traces/import/import.h).
#pragma once

#include <string>

#include "base/result.h"
#include "traces/import/import.h"

namespace foretrain {

// Imports the trace at `path` into `path`.db beside it, or, where that folder cannot be written,
// into the system's folder for temporary files, and returns the store. One that is there and not
// older than the trace is returned as it is.
//
// Errors: those of ReadTraces and of the store.
Result<std::string> StoreOfTrace(const std::string& path, const ImportOptions& options = {});

}  // namespace foretrain
