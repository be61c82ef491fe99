#include "sim/spec/plan_json.h"

#include <array>

#include "base/checked.h"
#include "base/json.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 3> kSchedules = {"gpipe", "1f1b", "zb-h1"};
constexpr std::array<std::string_view, 2> kRecomputes = {"none", "full"};

}  // namespace

Result<Plan> ReadPlan(JsonFields& fields) {
  Plan plan;
  const auto ranks = [&](std::string_view name) {
    return static_cast<int>(fields.IntegerOr(name, 1, 1, kMaxRanks));
  };
  plan.dp = ranks("dp");
  plan.tp = ranks("tp");
  plan.pp = ranks("pp");
  plan.sequence = fields.Integer("sequence", 1, kMaxModelCount);
  plan.global_batch = fields.Integer("global_batch", 1, kMaxModelCount);
  plan.micro_batch = fields.Integer("micro_batch", 1, kMaxModelCount);
  plan.schedule = static_cast<ScheduleKind>(
      fields.ChoiceOr("schedule", static_cast<std::size_t>(plan.schedule), kSchedules));
  plan.zero_stage = static_cast<int>(fields.IntegerOr("zero_stage", plan.zero_stage, 0, 3));
  plan.recompute = static_cast<RecomputeKind>(
      fields.ChoiceOr("recompute", static_cast<std::size_t>(plan.recompute), kRecomputes));
  plan.clip_norm = fields.NumberOr("clip_norm", plan.clip_norm, 0, 1e30);
  plan.bucket_bytes = fields.IntegerOr("bucket_bytes", plan.bucket_bytes, 1, kMaxProduct);
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

void WriteJson(JsonWriter& writer, const Plan& plan) {
  writer.BeginObject()
      .Field("dp", plan.dp)
      .Field("tp", plan.tp)
      .Field("pp", plan.pp)
      .Field("sequence", plan.sequence)
      .Field("global_batch", plan.global_batch)
      .Field("micro_batch", plan.micro_batch)
      .Field("schedule", Name(plan.schedule))
      .Field("zero_stage", plan.zero_stage)
      .Field("recompute", Name(plan.recompute))
      .Field("clip_norm", plan.clip_norm)
      .Field("bucket_bytes", plan.bucket_bytes)
      .EndObject();
}

std::string ToJson(const Plan& plan) {
  JsonWriter writer(2);
  WriteJson(writer, plan);
  return writer.Take();
}

}  // namespace foretrain
