// Traces of other programs as runs of a store, with progress on the terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/import/import.h"

namespace foretrain {

// The traces that `text` names: files separated by commas, or folders, of which all `.json`,
// `.json.gz` and `.sqlite` files count, "rank9" before "rank10". Errors: kInvalidArgument, a folder
// without any; those of listing a folder.
Result<std::vector<std::string>> TracesIn(std::string_view text);

// Reads traces, one file a rank, and adds them to the store at `store`, which is made if it is not
// there. All are read before the store is opened: a bad one leaves nothing behind. A signal that
// StopSignals caught ends the reading. Sets options.progress.
//
//   quiet  shows no progress
//
// Errors: those of ReadTraces and of the store.
Result<std::vector<ImportedRun>> ImportTraces(const std::vector<std::string>& traces,
                                              const std::string& store, ImportOptions options,
                                              bool quiet);

}  // namespace foretrain
