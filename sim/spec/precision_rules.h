// What excludes what among number formats: rows of plan_rules.h, each what is wrong and the nearest
// legal choice, or nothing.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string WeightsNeedShortActivations(const Plan& plan);
std::string GradientsNeedShortActivations(const Plan& plan);
std::string GatherFormatShortens(const Plan& plan);
std::string MastersLeaveParametersHere(const Plan& plan);
std::string UnshardedIsReadAsGathered(const Plan& plan);
std::string PostValidationAmendsFp32(const Plan& plan);
std::string ScaleWindowNeedsAScale(const Plan& plan);
std::string ScaleIsKnownWhereItIsUndone(const Plan& plan);
std::string ProductsNeedWholeBlocks(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
