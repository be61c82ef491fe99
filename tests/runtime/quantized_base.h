// The weights that a plan of method qlora trains beside: numbers that its ranks' 4 bits stand for.
#pragma once

#include "training.h"

namespace foretrain {

// They are those of each tensor-parallel rank's own part, so that another tp has others. Adapters
// are fresh ones of the options' seed.
TensorSource QuantizedBase(const ModelSpec& model, const Plan& plan,
                           const TrainingOptions& options);

}  // namespace foretrain
