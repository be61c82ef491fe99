// Stored runs as the desktop's views take them. Leaves out which store is open
// (app/desktop/desktop_stores.h) and drawing (ui/).
#pragma once

#include "app/runs/stored_runs.h"
#include "base/result.h"
#include "ui/run_view.h"

namespace foretrain {

// `run` with the metric options of its own machine and plan.
// Errors: kCorruptInput, the specs stored with the run cannot be read.
Result<RunView> ViewOf(const StoreReader& reader, StoredRun run);

// The views of both runs of `pair`, either of which may be missing.
Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair);

}  // namespace foretrain
