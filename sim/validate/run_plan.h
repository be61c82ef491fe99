// The plan of a published run: what its row states over what its system's preset says.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/preset.h"
#include "sim/validate/families.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// Plan of the row: the preset's options, overridden by every field that the row states. Fields that
// the row leaves open have their first value (run_case.h searches them). What a plan cannot say is
// noted in `filled`.
//
// Errors: kInvalidArgument, naming column, value and remedy: a dtype, rank order, method,
// recomputation or offload that no plan has.
Result<Plan> PlanOfRun(const PublishedRun& run, const RunFamily& family, const Preset& preset,
                       std::vector<std::string>& filled);

}  // namespace foretrain
