// Plan as JSON: what --plan FILE reads and the store keeps.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/spec/plan.h"

namespace foretrain {

class JsonFields;
class JsonWriter;
struct PlanField;

// The plan in `text`: an object with the fields of Plan, kinds by name ("1f1b", "full"). sequence,
// global_batch and micro_batch must be there; the others are as in Plan{} where they are missing.
//
//   file  where `text` comes from, for messages
//
// Errors: naming file, field, value and remedy: not JSON, an unknown or missing field, a value out
// of range, and what ValidatePlan(plan) refuses. Whether it fits a model is ValidatePlan(plan,
// model). O(bytes); safe from any thread.
Result<Plan> PlanFromJson(std::string_view text, std::string_view file);

// The same from an object that is part of another text; finishes `fields`.
Result<Plan> ReadPlan(JsonFields& fields);

// Sets `field` of the plan from what `fields` has under `name`; what is wrong, fields.Finish()
// says.
void ReadPlanField(JsonFields& fields, std::string_view name, const PlanField& field, Plan& plan);

// All fields of `plan`, two spaces a level. Reads back to an equal Plan.
std::string ToJson(const Plan& plan);
void WriteJson(JsonWriter& writer, const Plan& plan);

}  // namespace foretrain
