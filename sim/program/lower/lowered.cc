#include "sim/program/lower/lowered.h"

#include <algorithm>
#include <array>
#include <string>

#include "sim/spec/plan_fields.h"

namespace foretrain {
namespace {

// Fields that have one value so far: their default.
constexpr std::array<std::string_view, 5> kNotLowered = {"post_validation", "offload_gradients",
                                                         "method", "lora_rank", "lora_alpha"};

std::string NotLowered(const Plan& plan) {
  for (const std::string_view name : kNotLowered) {
    if (!HasDefault(PlanFieldOf(name), plan)) return std::string(name);
  }
  if (plan.schedule == ScheduleKind::kPipeDream || plan.schedule == ScheduleKind::kPipeDream2bw) {
    return "schedule " + std::string(Name(plan.schedule));
  }
  return {};
}

}  // namespace

bool IsLowered(std::string_view field) {
  return std::find(kNotLowered.begin(), kNotLowered.end(), field) == kNotLowered.end();
}

Result<void> CheckLowered(const Plan& plan) {
  const std::string what = NotLowered(plan);
  if (what.empty()) return {};
  return Fail(ErrorCode::kUnsupported,
              what + ": this version compiles no plan with it; leave it at its default");
}

}  // namespace foretrain
