// Counts a model's parameters where the model may be too large to count. For model_spec.cc.
#pragma once

#include "sim/spec/model_spec.h"

namespace foretrain {

// ParameterCount in doubles, of a model whose counts are each in their range: at least as large as
// any product that ParameterCount makes. O(1).
double ApproximateParameterCount(const ModelSpec& model);

}  // namespace foretrain
