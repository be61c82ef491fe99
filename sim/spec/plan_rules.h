// Choices of a plan that exclude each other: a table of rules, each with its remedy. Leaves out
// ranges of single fields (plan_fields.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// A sentence that names both choices with their values and the nearest that works, or nothing where
// the plan keeps the rule. The fields of the plan are in their ranges.
struct PlanRule {
  std::string_view name;  // "interleaved-needs-whole-rounds": of its test
  std::string (*broken)(const Plan& plan);
};
struct PlanModelRule {
  std::string_view name;
  std::string (*broken)(const Plan& plan, const ModelSpec& model);
};

std::span<const PlanRule> PlanRules();
std::span<const PlanModelRule> PlanModelRules();

// The first broken rule as kInvalidArgument.
Result<void> CheckRules(const Plan& plan);
Result<void> CheckRules(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
