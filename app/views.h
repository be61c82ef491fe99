// Stored runs as the desktop's views take them. Leaves out drawing: ui/.
#pragma once

#include <string>

#include "app/stored_runs.h"
#include "ui/compare_view.h"

namespace foretrain {

// Either run may be missing; that needs a context of its own run.
Result<CompareInput> CompareInputOf(const StoreReader& reader, const RunPair& pair);

}  // namespace foretrain
