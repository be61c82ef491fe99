// A number for what a table of the search depends on: the plan's fields but those that it does not
// read. A field that is added to plans counts until a table leaves it out.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "sim/spec/plan_fields.h"

namespace foretrain {

// Fields that differ between the plans of a search; of one that is not here all have the same.
using VaryingFields = std::vector<const PlanField*>;
VaryingFields AllPlanFields();

class PlanKey {
 public:
  // Of `varying` all but `left_out`, by their names in files.
  PlanKey(const VaryingFields& varying, std::initializer_list<std::string_view> left_out);

  // To which the caller adds what else tells entries apart. O(fields).
  StableHash Of(const Plan& plan) const {
    StableHash hash;
    for (const PlanField* field : integers_) hash.Add(field->get(plan));
    for (const PlanField* field : numbers_) hash.Add(plan.*(field->number));
    for (const PlanField* field : lists_) {
      hash.Add((plan.*(field->list)).size());
      for (const int value : plan.*(field->list)) hash.Add(value);
    }
    return hash;
  }

 private:
  std::vector<const PlanField*> integers_, numbers_, lists_;
};

}  // namespace foretrain
