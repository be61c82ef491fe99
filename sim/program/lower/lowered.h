// Which choices of a plan are lowered at all.
#pragma once

#include "base/result.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Refuses with kUnsupported, naming field and value, a plan whose choices no lowering knows yet.
Result<void> CheckLowered(const Plan& plan);

}  // namespace foretrain
