// A run and its forecast in one trace for Perfetto, joined: their compared steps begin together,
// and flows lead from ops to their counterparts and from sends to receives.
#pragma once

#include <string>
#include <vector>

#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// Writes run `run` and, above it, `against` (as LoadPair) to `path`. The forecast's last step is
// moved to the start of the measured median step. Kernels of a trace are paired with ops by
// structure; if that cannot be trusted, there are no such flows. Returns the runs in their order in
// the file. Errors: those of the store and of writing.
Result<std::vector<RunId>> WritePairedTrace(const StoreReader& reader, RunId run, RunId against,
                                            FileSystem& files, const std::string& path);

}  // namespace foretrain
