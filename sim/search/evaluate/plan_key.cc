#include "sim/search/evaluate/plan_key.h"

#include <algorithm>

namespace foretrain {

VaryingFields AllPlanFields() {
  VaryingFields fields;
  for (const PlanField& field : PlanFields()) fields.push_back(&field);
  return fields;
}

// Sorts fields by how they are read, once, so that Of needs no test per field. A search calls it
// several times for every plan.
PlanKey::PlanKey(const VaryingFields& varying, std::initializer_list<std::string_view> left_out) {
  for (const PlanField* field : varying) {
    if (std::find(left_out.begin(), left_out.end(), field->name) != left_out.end()) continue;
    (field->get != nullptr      ? integers_
     : field->number != nullptr ? numbers_
                                : lists_)
        .push_back(field);
  }
}

}  // namespace foretrain
