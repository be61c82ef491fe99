// What excludes what in training adapters: rows of plan_rules.h, each
// what is wrong and the nearest legal choice, or nothing.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string AdaptersNeedLora(const Plan& plan);
std::string AdaptersAreScaled(const Plan& plan);
std::string QuantizedBaseIsReadIn16Bits(const Plan& plan);
std::string AdaptersAreThin(const Plan& plan, const ModelSpec& model);
std::string AdaptersLeaveExpertsOut(const Plan& plan, const ModelSpec& model);
std::string AdaptersLeaveLatentAttentionOut(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
