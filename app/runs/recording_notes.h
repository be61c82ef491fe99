// Notes on the quality of a run's recording, shown with its metrics, and on its GPUs: errors, and
// whether they were held back.
#pragma once

#include <string>
#include <vector>

#include "traces/run.h"

namespace foretrain {

// One sentence a problem: errors of GPUs, dropped spans, spans without a time, device time without
// an op, threads that waited for a core for 5 % of a median step or more, GPUs that were throttled
// for 1 % of the recorded window or more. The run's own notes
// follow.
//
//   coverage  Metrics::coverage of the run, in [0, 1]
std::vector<std::string> RecordingNotes(const StoredRun& run, double coverage);

}  // namespace foretrain
