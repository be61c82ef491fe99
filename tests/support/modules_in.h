// Modules of selective recomputation that a model has, for tests that try them all.
#pragma once

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// All modules whose tensors the model's layers save.
RecomputeModules ModulesIn(const ModelSpec& model);

}  // namespace foretrain
