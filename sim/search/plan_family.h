// Plans that differ in a few fields alone, of which each takes any of some values: what a search
// leaves out at once where none of them can be of use.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/spec/plan.h"
#include "sim/spec/plan_fields.h"

namespace foretrain {

// Values that one field of a plan may take.
struct SearchChoice {
  const PlanField* field = nullptr;  // not kNumber or kIntegers
  std::vector<std::int64_t> values;
};

struct PlanFamily {
  std::vector<SearchChoice> free;  // by MayBeFree; none without values
  std::uint64_t key = 0;           // of their names and values
};

// Whether what a plan costs is known to come from its blocks and its state alone as far as the
// field goes, not from the shape of its pipeline or the size of its groups.
bool MayBeFree(const PlanField& field);

// Fills `family.key`.
void SetKey(PlanFamily& family);

// The fields of `family` of which `reads` is true; `plan` gets the others at what plans begin with.
PlanFamily Restricted(const PlanFamily& family, const std::function<bool(std::string_view)>& reads,
                      Plan& plan);

// Calls `visit` for `plan` with each combination of the values, invalid ones too. O(combinations).
void ForEach(const PlanFamily& family, Plan plan, const std::function<void(const Plan&)>& visit);

}  // namespace foretrain
