// Why a stored run differs from its forecast and what its ops compute, for the desktop. Leaves out
// figures that timelines alone give.
#pragma once

#include "ui/explanation.h"

namespace foretrain {

// Opens the store anew, so that another thread may read it too; compiles the run's program and, of
// a measured run with its forecast, replays it with the work of measured step `step`.
//
// Errors: those of the store; kInvalidArgument, the run cannot be read or compiled again. A gap
// that cannot be attributed is a note, not an error.
Result<Explanation> ExplainStoredRuns(const StoreRequest& runs, std::int32_t step);

}  // namespace foretrain
