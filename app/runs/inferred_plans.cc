#include "app/runs/inferred_plans.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxTextBytes = 400;  // of one line's part

// "micro-batches 8", "ZeRO stage 1", "schedule 1f1b": a field as a reader calls it.
std::string CalledOf(std::string_view name) {
  if (name == "zero_stage") return "ZeRO stage";
  if (name == "micro_batches") return "micro-batches";
  if (name == "vpp") return "chunks a rank";
  return std::string(name);
}

// Whether the plan has a use for the field: one stage has no schedule, one holder shards nothing.
bool Applies(const InferredPlan& plan, std::string_view name) {
  if (name == "schedule" || name == "vpp") return plan.Value("pp") != "1";
  return name != "zero_stage" || plan.Value("dp") != "1" || plan.Value("cp") != "1";
}

}  // namespace

void Write(JsonWriter& json, const InferredPlan& plan) {
  json.BeginObject().Field("options", plan.Options()).Name("fields").BeginArray();
  for (const InferredField& field : plan.fields) {
    json.BeginObject().Field("name", field.name).Name("value");
    field.value.empty() ? json.Null() : json.String(field.value);
    json.Field("evidence", field.evidence).EndObject();
  }
  json.EndArray().EndObject();
}

std::string ToJson(const InferredPlan& plan) {
  JsonWriter json;
  Write(json, plan);
  return json.Take();
}

Result<InferredPlan> InferredPlanFromJson(std::string_view text, std::string_view source) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, source));
  JsonFields fields(value, source);
  InferredPlan plan;
  fields.StringOr("options", "");
  for (JsonFields& field : fields.Objects("fields")) {
    plan.fields.push_back({.name = field.String("name"),
                           .value = field.StringOr("value", ""),
                           .evidence = field.String("evidence")});
    FT_TRY(field.Finish());
  }
  FT_TRY(fields.Finish());
  return plan;
}

std::optional<InferredPlan> InferredPlanOf(const StoreReader& reader, RunId run) {
  const auto bytes = reader.Attachment(run, kInferredPlanAttachment);
  if (!bytes.has_value()) return std::nullopt;
  auto plan = InferredPlanFromJson(*bytes, reader.path());
  if (!plan.has_value()) return std::nullopt;
  return *std::move(plan);
}

std::string TextOf(const InferredPlan& plan) {
  std::vector<std::string> told;
  std::vector<std::pair<std::string, std::string>> untold;  // evidence, and the fields it is about
  for (const InferredField& field : plan.fields) {
    const std::string name = CalledOf(field.name);
    if (!field.value.empty()) {
      told.push_back(Printable(name + " " + field.value, kMaxTextBytes));
    } else if (Applies(plan, field.name)) {
      const auto same = std::find_if(untold.begin(), untold.end(), [&](const auto& other) {
        return other.first == field.evidence;
      });
      if (same == untold.end()) {
        untold.emplace_back(field.evidence, name);
      } else {
        same->second += ", " + name;
      }
    }
  }
  if (told.empty()) return "  plan in the trace: not told; --json has the reasons\n";
  std::string text = "  plan in the trace: " + Join(told, ", ") + "\n";
  const std::string options = plan.Options();
  if (!options.empty()) {
    text += "    options of predict: " + Printable(options, kMaxTextBytes) + "\n";
  }
  for (const auto& [evidence, names] : untold) {
    text += "    not told: " + Printable(names + ": " + evidence, kMaxTextBytes) + "\n";
  }
  return text;
}

}  // namespace foretrain
