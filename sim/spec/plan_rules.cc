#include "sim/spec/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "sim/spec/plan_fields.h"

namespace foretrain {
namespace {

std::string VppNeedsInterleaving(const Plan& plan) {
  if (plan.vpp == 1 || plan.schedule == ScheduleKind::kInterleaved) return {};
  return fmt::format(
      "vpp {} with schedule {}: only the schedule interleaved has chunks; use schedule interleaved "
      "or vpp 1",
      plan.vpp, Name(plan.schedule));
}

// Largest divisor of `count` that is at most `wanted`; both >= 1.
int DivisorBelow(int count, int wanted) {
  int divisor = std::min(count, wanted);
  while (count % divisor != 0) --divisor;
  return divisor;
}

std::string ReplicasDivideRanks(const Plan& plan) {
  const int ranks = plan.DataParallel();
  if (ranks % plan.replicas == 0) return {};
  return fmt::format(
      "replicas {} with {} data-parallel ranks: each replica holds all shards, so it must divide "
      "them; use replicas {}",
      plan.replicas, ranks, DivisorBelow(ranks, plan.replicas));
}

std::string ReplicasNeedSharding(const Plan& plan) {
  if (plan.replicas == 1 || plan.zero_stage > 0) return {};
  return fmt::format(
      "replicas {} with zero_stage 0: only shards have replicas; use zero_stage 1 or replicas 1",
      plan.replicas);
}

std::string GatherFormatNeedsShardedParameters(const Plan& plan) {
  if (plan.gather_format == GatherFormat::kFp32 || plan.zero_stage == 3) return {};
  return fmt::format(
      "gather_format {} with zero_stage {}: only zero_stage 3 gathers copies of parameters, others "
      "their only ones; use zero_stage 3 or gather_format fp32",
      PlanFieldOf("gather_format").choices[static_cast<std::size_t>(plan.gather_format)],
      plan.zero_stage);
}

std::string SgdHasNoMoments(const Plan& plan) {
  if (plan.optimizer != OptimizerKind::kSgd || plan.moments == MomentFormat::kFp32) return {};
  return fmt::format(
      "moments {} with optimizer sgd: it keeps none; use optimizer adamw or moments fp32",
      PlanFieldOf("moments").choices[static_cast<std::size_t>(plan.moments)]);
}

}  // namespace

std::span<const PlanRule> PlanRules() {
  static const std::vector<PlanRule> rules = {
      {"vpp-needs-interleaving", VppNeedsInterleaving},
      {"replicas-divide-ranks", ReplicasDivideRanks},
      {"replicas-need-sharding", ReplicasNeedSharding},
      {"gather-format-needs-sharded-parameters", GatherFormatNeedsShardedParameters},
      {"sgd-has-no-moments", SgdHasNoMoments},
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
