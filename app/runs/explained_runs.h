// Facts about a stored run that only its compiled program tells, for the desktop: why it differs
// from its forecast, the work of its ops, and the tensors at its memory peak. Each call opens the
// store anew, so that another thread may read it too.
#pragma once

#include "ui/explanation.h"

namespace foretrain {

// Compiles the run's program. If the run is a measurement with a forecast, replays the program with
// the work of measured step `step`.
//
// Errors: those of the store; kInvalidArgument, the run cannot be read or compiled again. A gap
// that cannot be attributed is a note, not an error.
Result<Explanation> ExplainStoredRuns(const StoreRequest& runs, std::int32_t step);

// Compiles the run's program for one rank of each class and lists the tensors at its peak in
// `space`. Of an imported memory snapshot it lists allocations by stack. Errors: those of the
// store; kInvalidArgument, the run cannot be read or compiled again.
Result<LiveRanks> LiveOfStoredRun(const StoreRequest& runs, Space space);

}  // namespace foretrain
