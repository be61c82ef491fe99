#include "sim/spec/plan_rules.h"

#include <fmt/format.h>

#include <vector>

namespace foretrain {
namespace {

std::string VppNeedsInterleaving(const Plan& plan) {
  if (plan.vpp == 1 || plan.schedule == ScheduleKind::kInterleaved) return {};
  return fmt::format(
      "vpp {} with schedule {}: only the schedule interleaved has chunks; use schedule interleaved "
      "or vpp 1",
      plan.vpp, Name(plan.schedule));
}

}  // namespace

std::span<const PlanRule> PlanRules() {
  static const std::vector<PlanRule> rules = {
      {"vpp-needs-interleaving", VppNeedsInterleaving},
  };
  return rules;
}

std::span<const PlanModelRule> PlanModelRules() {
  static const std::vector<PlanModelRule> rules = {};
  return rules;
}

Result<void> CheckRules(const Plan& plan) {
  for (const PlanRule& rule : PlanRules()) {
    if (std::string why = rule.broken(plan); !why.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::move(why));
    }
  }
  return {};
}

Result<void> CheckRules(const Plan& plan, const ModelSpec& model) {
  for (const PlanModelRule& rule : PlanModelRules()) {
    if (std::string why = rule.broken(plan, model); !why.empty()) {
      return Fail(ErrorCode::kInvalidArgument, std::move(why));
    }
  }
  return {};
}

}  // namespace foretrain
