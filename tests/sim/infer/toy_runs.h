// The plan that is read from the traces of a simulated run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/infer/infer_plan.h"

namespace foretrain {

// Simulates the plan on GPUs, writes its traces, imports them and reads the plan. Fails the test
// where a step fails.
InferredPlan InferredFrom(const ModelSpec& model, const Plan& plan);

// Names of the fields and the values that they should have for `plan`.
std::vector<std::pair<std::string, std::string>> TruthOf(const Plan& plan);

// Fields that say something else than the truth, as "tp: 4, not 2".
std::vector<std::string> WrongFields(const InferredPlan& inferred, const Plan& plan);

}  // namespace foretrain
