// What excludes what in keeping state, gradients and activations off the device: rows of
// plan_rules.h, each what is wrong and the nearest legal choice, or nothing.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string FractionNeedsOffload(const Plan& plan);
std::string StreamNeedsOffload(const Plan& plan);
std::string DelayNeedsHostUpdate(const Plan& plan);
std::string OffloadedMomentsAreFp32(const Plan& plan);
std::string GradientsNeedUpdatesAway(const Plan& plan);
std::string GradientsStayInMemory(const Plan& plan);
std::string GradientsLeaveSummed(const Plan& plan);
std::string DelayNeedsPlainLoss(const Plan& plan);
std::string ParametersNeedUpdatesAway(const Plan& plan);

}  // namespace foretrain
