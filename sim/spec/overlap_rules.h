// What excludes what in schedules whose steps overlap and in updates that are validated afterwards:
// rows of plan_rules.h, each what is wrong and the nearest legal choice, or nothing.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string OverlapNeedsMicroBatches(const Plan& plan);
std::string OverlapUpdatesAlone(const Plan& plan);
std::string OverlapKeepsWholeParameters(const Plan& plan);
std::string PipeDreamSumsOnce(const Plan& plan);
std::string OverlapTrainsAll(const Plan& plan);
std::string OverlapStaysOnTheDevice(const Plan& plan);
std::string PostValidationNeedsZeroBubble(const Plan& plan);
std::string PostValidationNeedsWhatToValidate(const Plan& plan);
std::string PostValidationKeepsFp32OnTheDevice(const Plan& plan);
std::string PipeDreamUntiesEmbeddings(const Plan& plan, const ModelSpec& model);
std::string OverlapTrainsAllOfTheRouter(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
