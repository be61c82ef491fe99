// Names of the models that stored runs trained: lists of runs do not hold them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "traces/run.h"
#include "traces/store.h"

namespace foretrain {

// Adds to `names` those of the measured runs among `runs` that it lacks. A run without a model, or
// with one that cannot be read, is left out.
// Errors: those of StoreReader::LoadRun. O(figures and counters of a run) for each that is added.
Result<void> AddModelNames(const StoreReader& reader, const std::vector<RunInfo>& runs,
                           std::map<RunId, std::string>& names);

}  // namespace foretrain
