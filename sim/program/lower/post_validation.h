// What updates know and what they learn afterwards, where they wait for no sum over the pipeline.
#pragma once

#include "sim/program/lower/lowerings.h"

namespace foretrain {

// What all stages know comes back: receives and sends behind the updates.
Skeleton ValidationSteps(const LowerContext& context);

// Whether the rank's updates may have to be amended: all but the last one's, which knows all.
bool MayAmend(const LowerContext& context);

}  // namespace foretrain
