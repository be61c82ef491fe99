// Counts the parameters of a model that may be too large for int64. For model_spec.cc.
#pragma once

#include "sim/config/model/model_spec.h"

namespace foretrain {

// ParameterCount in doubles, for a model whose counts are each in range. It is at least as large as
// any product that ParameterCount forms. O(1).
double ApproximateParameterCount(const ModelSpec& model);

}  // namespace foretrain
