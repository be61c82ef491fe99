// The options of a plan as controls: all fields of the plan's table, in groups, each with the values
// that a slider or a list steps through. Leaves out widgets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/plan_fields.h"

namespace foretrain::ui {

struct ControlGroup {
  std::string_view name;  // "parallel"
  std::vector<const PlanField*> fields;
};

// Every field of the table in exactly one group: parallel, batch, schedule, memory, precision,
// overlap, and other for those that no group names.
const std::vector<ControlGroup>& ControlGroups();

// Integers that a slider of the field steps through for a plan of `model` on `devices` devices,
// ascending: divisors of what it divides, else powers of two within what makes sense, always with
// the plan's own value. Empty for fields without `get`.
std::vector<std::int64_t> StepsOf(const PlanField& field, const ModelSpec& model, const Plan& plan,
                                  int devices);

// Sets a field; degrees of parallelism keep the number of ranks where dp can take up the change,
// and the batch stays. Returns the plan that results, valid or not.
Plan WithField(const PlanField& field, std::int64_t value, const Plan& plan, int devices);

// The name of a field for people: "context-parallel kind" for cp_kind.
std::string LabelOf(const PlanField& field);

}  // namespace foretrain::ui
