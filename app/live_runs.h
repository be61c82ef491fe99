// What the program of a stored run holds at its ranks' peaks, for the desktop. Leaves out what the
// store itself knows: bytes by category.
#pragma once

#include "ui/explanation.h"

namespace foretrain {

// Opens the store anew, so that another thread may read it too, and compiles the run's program: of
// each class of ranks one.
// Errors: those of the store; kInvalidArgument, the run cannot be read or compiled again.
Result<LiveRanks> LiveOfStoredRun(const StoreRequest& runs, Space space);

}  // namespace foretrain
