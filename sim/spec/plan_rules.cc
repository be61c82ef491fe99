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

std::string FractionNeedsOffload(const Plan& plan) {
  if (plan.offload_fraction == 1.0 || plan.offload_optimizer != OffloadTarget::kNone) return {};
  return fmt::format(
      "offload_fraction {} with offload_optimizer none: it is a share of offloaded state; use "
      "offload_optimizer host or offload_fraction 1",
      plan.offload_fraction);
}

std::string StreamNeedsOffload(const Plan& plan) {
  if (!plan.stream_optimizer || plan.offload_optimizer != OffloadTarget::kNone) return {};
  return "stream_optimizer with offload_optimizer none: state that lies on the device is updated "
         "there; use offload_optimizer host or leave stream_optimizer out";
}

std::string DelayNeedsHostUpdate(const Plan& plan) {
  if (!plan.delayed_update) return {};
  if (plan.offload_optimizer == OffloadTarget::kNone) {
    return "delayed_update with offload_optimizer none: only the host's processors can update "
           "beside the next step; use offload_optimizer host or leave delayed_update out";
  }
  if (plan.stream_optimizer) {
    return "delayed_update with stream_optimizer: the device is busy with the next step; leave one "
           "of them out";
  }
  if (plan.offload_fraction == 1.0) return {};
  return fmt::format(
      "delayed_update with offload_fraction {}: all parameters must miss the same gradient; use "
      "offload_fraction 1",
      plan.offload_fraction);
}

}  // namespace

std::span<const PlanRule> PlanRules() {
  static const std::vector<PlanRule> rules = {
      {"vpp-needs-interleaving", VppNeedsInterleaving},
      {"fraction-needs-offload", FractionNeedsOffload},
      {"stream-needs-offload", StreamNeedsOffload},
      {"delay-needs-host-update", DelayNeedsHostUpdate},
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
