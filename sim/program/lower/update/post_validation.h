// Updates that do not wait for sums over the pipeline: they use partial sums, and are amended when
// the full sums arrive.
#pragma once

#include "sim/program/lower/rank/lowerings.h"

namespace foretrain {

// Receives and sends after the updates that bring back the full sums.
Skeleton ValidationSteps(const LowerContext& context);

// True if the rank's updates may need an amendment: on all ranks but the last, which knows the full
// sums.
bool MayAmend(const LowerContext& context);

}  // namespace foretrain
