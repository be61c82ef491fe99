// A family of plans: all combinations of values of a few free fields, with every other field equal.
// The search skips a whole family if a lower bound rules it out.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/config/plan/plan.h"
#include "sim/config/plan/plan_fields.h"

namespace foretrain {

// Values that one field of a plan may take.
struct SearchChoice {
  const PlanField* field = nullptr;  // never of kind kNumber or kIntegers
  std::vector<std::int64_t> values;
};

struct PlanFamily {
  std::vector<SearchChoice> free;  // MayBeFree holds for each; every list has values
  std::uint64_t key = 0;           // hash of names and values (SetKey)
};

// True if the field changes a plan's costs only through its blocks and its state. Such a field
// changes neither the shape of the pipeline nor the size of a group.
bool MayBeFree(const PlanField& field);

// Fills `family.key`.
void SetKey(PlanFamily& family);

// The family with only the fields for which `reads` is true. `plan` gets the default value of each
// other field, so that it represents all of them.
PlanFamily Restricted(const PlanFamily& family, const std::function<bool(std::string_view)>& reads,
                      Plan& plan);

// Calls `visit` for `plan` with every combination of the values, invalid plans included.
// O(combinations).
void ForEach(const PlanFamily& family, Plan plan, const std::function<void(const Plan&)>& visit);

}  // namespace foretrain
