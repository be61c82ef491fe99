// Hash of the plan fields that one table of the search reads. A new plan field is part of every key
// until a table leaves it out.
#pragma once

#include <string_view>
#include <vector>

#include "base/hash.h"
#include "sim/config/plan/plan_fields.h"

namespace foretrain {

// Fields that differ between the plans of a search. All other fields have the same value in every
// plan, so keys may skip them.
using VaryingFields = std::vector<const PlanField*>;
VaryingFields AllPlanFields();
// The fields that are not among `names`, as in plan files, separated by blanks. A name that no plan
// field has is a bug.
VaryingFields Without(VaryingFields fields, std::string_view names);

class PlanKey {
 public:
  explicit PlanKey(const VaryingFields& fields);

  // Hash of the plan's values; the caller adds anything else that distinguishes entries. O(fields).
  StableHash Of(const Plan& plan) const {
    StableHash hash;
    for (const PlanField* field : integers_) hash.Add(field->get(plan));
    for (const PlanField* field : numbers_) hash.Add(plan.*(field->number));
    for (const PlanField* field : lists_) {
      hash.Add((plan.*(field->list)).size());
      for (const int value : plan.*(field->list)) hash.Add(value);
    }
    for (const PlanField* field : slots_) {
      const SlotOrder& slots = plan.*(field->slots);
      hash.Add(slots.empty() ? 0 : slots.hash());
    }
    return hash;
  }

 private:
  std::vector<const PlanField*> integers_, numbers_, lists_, slots_;
};

}  // namespace foretrain
