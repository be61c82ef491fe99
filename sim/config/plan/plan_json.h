// Plan as JSON, for --plan FILE and for the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

class JsonFields;
class JsonWriter;
struct PlanField;

// Parses a plan: an object with the fields of Plan, kinds by name ("1f1b", "full"). sequence,
// global_batch and micro_batch are required; other missing fields are as in Plan{}.
//
//   file  source of `text`, for messages
//
// Errors name file, field, value and remedy: not JSON, an unknown or missing field, a value out of
// range, or anything that ValidatePlan(plan) refuses. ValidatePlan(plan, model) checks that it fits
// a model. O(bytes); safe from any thread.
Result<Plan> PlanFromJson(std::string_view text, std::string_view file);

// Reads the same from an object within another text; finishes `fields`.
Result<Plan> ReadPlan(JsonFields& fields);

// Sets `field` of the plan from the value under `name`. Errors stay in `fields` until Finish().
void ReadPlanField(JsonFields& fields, std::string_view name, const PlanField& field, Plan& plan);

// Fields that a writer puts into a file. kNotDefault: the core ones and those whose value is not
// that of Plan{}. kAll: every field, for files that people read and that must survive new defaults.
enum class WrittenFields : std::uint8_t { kNotDefault, kAll };

// Writes `plan`, indented by two spaces. Reads back to an equal Plan.
std::string ToJson(const Plan& plan, WrittenFields fields = WrittenFields::kNotDefault);
void WriteJson(JsonWriter& writer, const Plan& plan,
               WrittenFields fields = WrittenFields::kNotDefault);

}  // namespace foretrain
