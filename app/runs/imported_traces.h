// Traces of other programs as runs of a store, with progress on the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/import/import.h"

namespace foretrain {

// The trace at `path`, or all traces of a folder: its `.json`, `.json.gz` and `.sqlite` files,
// "rank9" before "rank10". Errors: kInvalidArgument, a folder without any; those of listing it.
Result<std::vector<std::string>> TracesAt(const std::string& path);

// The traces that `text` names: files or folders, separated by commas. Errors: those of TracesAt.
Result<std::vector<std::string>> TracesIn(std::string_view text);

// Reads traces, one file a rank, and adds them to the store at `store`, which is made if it is not
// there. All are read before the store is opened: a bad one leaves nothing behind. A signal that
// StopSignals caught ends the reading. The plan that the traces tell is stored with the run
// (inferred_plans.h). Sets options.progress.
//
//   quiet  shows no progress
//
// Errors: those of ReadTraces and of the store.
Result<std::vector<ImportedRun>> ImportTraces(const std::vector<std::string>& traces,
                                              const std::string& store, ImportOptions options,
                                              bool quiet);

}  // namespace foretrain
