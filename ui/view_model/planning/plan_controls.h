// The options of a plan as controls: all plan fields in groups, each with the values that a slider
// or list offers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/plan_fields.h"

namespace foretrain::ui {

struct ControlGroup {
  std::string_view name;  // "parallel"
  std::vector<const PlanField*> fields;
};

// Every plan field in exactly one group: parallel, batch, schedule, memory, precision, overlap,
// training, and other for fields that no group names.
const std::vector<ControlGroup>& ControlGroups();

// Values that a slider of the field offers for a plan of `model` on `devices` devices, ascending:
// divisors for fields that must divide something, otherwise powers of two in a sensible range.
// Always includes the plan's own value. Empty for fields without `get`.
std::vector<std::int64_t> StepsOf(const PlanField& field, const ModelSpec& model, const Plan& plan,
                                  int devices);

// Sets a field and returns the resulting plan, valid or not. A change of a degree is absorbed by dp
// if possible, so that the number of ranks stays; the batch stays.
Plan WithField(const PlanField& field, std::int64_t value, const Plan& plan, int devices);

// Displayed name of a field, from its first option: "cp kind" for --cp-kind.
std::string LabelOf(const PlanField& field);

}  // namespace foretrain::ui
