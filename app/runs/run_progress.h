// How far a run of a store has come, also while another process records it.
#pragma once

#include <string>

#include "ui/run_progress.h"

namespace foretrain {

// Errors: those of StoreReader.
Result<RunProgress> ProgressOfStoredRun(const std::string& path, RunId run);

}  // namespace foretrain
