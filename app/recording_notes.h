// What stands beside every figure of a measured run: how good its recording is, and whether its
// GPUs were held back.
#pragma once

#include <string>
#include <vector>

#include "traces/run.h"

namespace foretrain {

// A sentence each, none where all is well: spans dropped and without a time, device time without an
// op, GPUs held back for 1 % of the recorded window or more, and the run's own notes.
//
//   coverage  Metrics::coverage of the run, in [0, 1]
std::vector<std::string> RecordingNotes(const StoredRun& run, double coverage);

}  // namespace foretrain
