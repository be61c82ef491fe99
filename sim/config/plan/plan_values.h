// Values of a plan's fields as people write them: one, a list 1,2,4 or a range 1..8. The command
// line and the desktop use it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/plan_fields.h"

namespace foretrain {

// Parses "4", "1,2,4" or "1..8" (the first value, doubled up to the last); "auto" gives
// `automatic`. Errors: kInvalidArgument, naming `option`.
Result<std::vector<std::int64_t>> ParseIntegerList(const std::string& option,
                                                   const std::string& text,
                                                   const std::vector<std::int64_t>& automatic);

// Parses the values of a field that has `get`: names of choices and flags, sizes with units,
// integers. A field of type kNames takes one value, the set of all names. Errors: kInvalidArgument,
// naming the field's first option, the text and the allowed values.
Result<std::vector<std::int64_t>> ParsePlanValues(const PlanField& field, const std::string& text);

// Parses a number of tokens: "8192", "8k" or "0.5M". Sequences and batches are powers of two, so k
// is 1,024 and M is 1,048,576. Errors: kInvalidArgument, naming `option`: another suffix, a
// fraction of a token, or more than kMaxModelCount.
Result<std::int64_t> ParseTokenCount(const std::string& option, const std::string& text);

// Sets the field from a text with one value (a list for kIntegers; for kSlots the contents of the
// file, with which the schedule becomes custom). `sequence` is read by
// ParseTokenCount. `global_batch` counts samples; with k or M it counts tokens, of which a sample
// has plan.sequence. Errors: as above, and tokens that make no whole number of samples;
// ValidatePlan checks the range.
Result<void> SetPlanField(const PlanField& field, const std::string& text, Plan& plan);

}  // namespace foretrain
