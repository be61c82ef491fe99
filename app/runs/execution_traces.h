// A stored run as Chakra's execution traces: the graph is that of the run's program, compiled
// again, and the times are those of one of its steps.
#pragma once

#include <optional>
#include <string>

#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// Writes a file for each rank of the plan into `folder`. A forecast may hold one rank of several
// that do the same: the others have its times. An imported run has no program: its graph is that of
// execution_trace.h's ExecutionTraceOf, of the ranks that were traced.
//
//   step  -1: the last of a forecast, the median one of other runs
//
// Returns the run. Errors: those of the store and of writing; kInvalidArgument, no such step;
// kUnsupported, a run of a program that this foretrain compiles to another one.
Result<RunId> WriteExecutionTraces(const StoreReader& reader, RunId run, int step,
                                   FileSystem& files, const std::string& folder);

}  // namespace foretrain
