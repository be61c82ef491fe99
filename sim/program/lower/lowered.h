// Which choices of a plan are lowered at all.
#pragma once

#include <string_view>

#include "base/result.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Whether plans may have other values of the field than its default.
bool IsLowered(std::string_view field);

// Refuses with kUnsupported, naming field and value, a plan whose choices no lowering knows yet.
Result<void> CheckLowered(const Plan& plan);

}  // namespace foretrain
