// What plans cannot have of attention; plan_rules.cc lists them. Each returns nothing, or why not and
// what can be had.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string ScoresNeedWholeSequences(const Plan& plan);
std::string SinksNeedAllScores(const Plan& plan, const ModelSpec& model);
std::string WrittenScoresArePlain(const Plan& plan, const ModelSpec& model);


}  // namespace foretrain
