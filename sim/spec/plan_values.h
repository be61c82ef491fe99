// Values of a plan's fields as people write them: one, a list 1,2,4 or a range 1..8. Leaves out
// where they are written (the command line, the desktop).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/spec/plan.h"
#include "sim/spec/plan_fields.h"

namespace foretrain {

// Integers of "4", "1,2,4" or "1..8", powers of two times the first for a range; of "auto"
// `automatic`. Errors: kInvalidArgument, naming `option`.
Result<std::vector<std::int64_t>> ParseIntegerList(const std::string& option,
                                                   const std::string& text,
                                                   const std::vector<std::int64_t>& automatic);

// The values of a field that has `get`: names of choices and switches, sizes with units, integers.
// Errors: kInvalidArgument, naming the field's first option, the text and what it may be.
Result<std::vector<std::int64_t>> ParsePlanValues(const PlanField& field, const std::string& text);

// Lays the text, which has one value (a list for a field of several), over the plan.
// Errors: as above; the field's range is left to ValidatePlan.
Result<void> SetPlanField(const PlanField& field, const std::string& text, Plan& plan);

}  // namespace foretrain
