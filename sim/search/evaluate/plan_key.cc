#include "sim/search/evaluate/plan_key.h"

#include "base/text.h"

namespace foretrain {

VaryingFields AllPlanFields() {
  VaryingFields fields;
  for (const PlanField& field : PlanFields()) fields.push_back(&field);
  return fields;
}

VaryingFields Without(VaryingFields fields, std::string_view names) {
  for (const std::string_view name : Split(names, ' ')) std::erase(fields, &PlanFieldOf(name));
  return fields;
}

// Sorts fields by how they are read, once, so that Of needs no test per field. A search calls it
// several times for every plan.
PlanKey::PlanKey(const VaryingFields& fields) {
  for (const PlanField* field : fields) {
    (field->get != nullptr      ? integers_
     : field->number != nullptr ? numbers_
     : field->list != nullptr   ? lists_
                                : slots_)
        .push_back(field);
  }
}

}  // namespace foretrain
