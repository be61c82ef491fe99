#include "sim/config/plan/plan_json.h"

#include <fmt/format.h>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/rules/refuse.h"
#include "sim/config/schedule/schedule_csv.h"

namespace foretrain {
namespace {

void WriteField(JsonWriter& writer, const PlanField& field, const Plan& plan) {
  switch (field.type) {
    case PlanFieldType::kNumber:
      writer.Field(field.name, plan.*field.number);
      return;
    case PlanFieldType::kIntegers:
      writer.Name(field.name).BeginArray();
      for (const int value : plan.*field.list) writer.Integer(value);
      writer.EndArray();
      return;
    case PlanFieldType::kSlots:
      writer.Name(field.name).BeginArray();
      if (!(plan.*field.slots).empty()) {
        for (const std::string& row : RowsOf((plan.*field.slots).draft())) writer.String(row);
      }
      writer.EndArray();
      return;
    case PlanFieldType::kFlag:
      writer.Field(field.name, field.get(plan) != 0);
      return;
    case PlanFieldType::kChoice:
      writer.Field(field.name, field.choices[static_cast<std::size_t>(field.get(plan))]);
      return;
    case PlanFieldType::kNames:
      writer.Name(field.name).BeginArray();
      for (const std::string_view name : NamesIn(field, field.get(plan))) writer.String(name);
      writer.EndArray();
      return;
    case PlanFieldType::kInteger:
    case PlanFieldType::kSize:
      writer.Field(field.name, field.get(plan));
      return;
  }
}

// Files may say true or false for a choice that used to be a flag, if when_true gives it a meaning.
std::int64_t ReadChoice(JsonFields& fields, std::string_view name, const PlanField& field,
                        std::int64_t otherwise) {
  const JsonValue* const found = fields.Any(name);
  const bool is_switch = found != nullptr && found->kind() == JsonValue::Kind::kBool;
  if (is_switch && field.when_true >= 0) return found->AsBool() ? field.when_true : 0;
  return static_cast<std::int64_t>(
      fields.ChoiceOr(name, static_cast<std::size_t>(otherwise), field.choices));
}

// The set of the names in an array; `otherwise` if the file has none.
std::int64_t ReadNames(JsonFields& fields, std::string_view name, const PlanField& field,
                       std::int64_t otherwise) {
  if (!fields.Has(name)) return otherwise;
  std::int64_t set = 0;
  for (const std::string& one : fields.Strings(name)) {
    const std::int64_t bit = BitOfName(field, one);
    if (bit == 0) {
      fields.Refuse(name,
                    fmt::format("\"{}\" is none of {}{}", Printable(one),
                                fmt::join(field.choices, ", "), DidYouMean(one, field.choices)));
      return otherwise;
    }
    set |= bit;
  }
  return set;
}

// A text for each rank, as in a file; `slots` stays if the file has none.
void ReadSlots(JsonFields& fields, std::string_view name, SlotOrder& slots) {
  const std::vector<std::string> rows = fields.StringsOr(name, kMaxScheduleBytes);
  if (rows.empty()) return;
  const auto draft = ParseScheduleRows(rows, "rows");
  if (!draft) return fields.Refuse(name, draft.error().message);
  auto made = SlotOrder::Make(*draft, "");
  if (!made) return fields.Refuse(name, made.error().message);
  slots = *std::move(made);
}

}  // namespace

// Defaults come from `plan` itself, so a preset's values survive where the file says nothing.
void ReadPlanField(JsonFields& fields, std::string_view name, const PlanField& field, Plan& plan) {
  switch (field.type) {
    case PlanFieldType::kNumber:
      plan.*field.number = fields.NumberOr(name, plan.*field.number, 0, field.max);
      return;
    case PlanFieldType::kIntegers:
      for (const std::int64_t value : fields.IntegersOr(name, field.low, field.high)) {
        (plan.*field.list).push_back(static_cast<int>(value));
      }
      return;
    case PlanFieldType::kSlots:
      return ReadSlots(fields, name, plan.*field.slots);
    case PlanFieldType::kFlag:
      return field.set(plan, fields.BoolOr(name, field.get(plan) != 0) ? 1 : 0);
    case PlanFieldType::kChoice:
      return field.set(plan, ReadChoice(fields, name, field, field.get(plan)));
    case PlanFieldType::kNames:
      return field.set(plan, ReadNames(fields, name, field, field.get(plan)));
    case PlanFieldType::kInteger:
    case PlanFieldType::kSize:
      break;
  }
  // A field whose default is outside its range must be given.
  const bool required = field.get(plan) < field.low;
  field.set(plan, required ? fields.Integer(name, field.low, field.high)
                           : fields.IntegerOr(name, field.get(plan), field.low, field.high));
}

// Fields remember the first error, so one Finish after the loop reports it. Only then the
// combination of values is checked.
Result<Plan> ReadPlan(JsonFields& fields) {
  Plan plan;
  for (const PlanField& field : PlanFields()) ReadPlanField(fields, field.name, field, plan);
  FT_TRY(fields.Finish());
  if (const auto valid = ValidatePlan(plan); !valid) {
    return Refuse("{}: {}", fields.Where(), valid.error().message);
  }
  return plan;
}

Result<Plan> PlanFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  return ReadPlan(fields);
}

// Defaults are left out, so that files stay short and later defaults apply to them. Core fields are
// always written: they identify a plan.
void WriteJson(JsonWriter& writer, const Plan& plan, WrittenFields fields) {
  const bool all = fields == WrittenFields::kAll;
  writer.BeginObject();
  for (const PlanField& field : PlanFields()) {
    if (all || field.core || !HasDefault(field, plan)) WriteField(writer, field, plan);
  }
  writer.EndObject();
}

std::string ToJson(const Plan& plan, WrittenFields fields) {
  JsonWriter writer(2);
  WriteJson(writer, plan, fields);
  return writer.Take();
}

}  // namespace foretrain
