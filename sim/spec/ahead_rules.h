// What plans of models that predict further ahead cannot have; plan_rules.cc lists them. Each
// returns nothing, or why the plan does not fit the model and what does.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string AheadNeedsWholeSequences(const Plan& plan, const ModelSpec& model);
std::string AheadNeedsAllLogits(const Plan& plan, const ModelSpec& model);
std::string AheadDropsNothing(const Plan& plan, const ModelSpec& model);
std::string AdaptersLeaveAheadOut(const Plan& plan, const ModelSpec& model);
std::string AheadNeedsOneLastStage(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
