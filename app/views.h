// Stored runs as the desktop's views take them. Leaves out drawing: ui/.
#pragma once

#include <string>

#include "app/stored_runs.h"
#include "ui/compare_view.h"

namespace foretrain {

// `pair` with the figures' options of each run's own machine and plan. Either run may be missing.
// Errors: kCorruptInput, specs stored with a run that cannot be read.
Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair);

}  // namespace foretrain
