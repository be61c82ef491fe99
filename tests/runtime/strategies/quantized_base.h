// The base weights of a QLoRA plan: the numbers that its ranks' 4 bits represent.
#pragma once

#include "tests/runtime/training.h"

namespace foretrain {

// Each tensor-parallel rank quantizes its own part, so another tp gives other numbers. Adapters are
// initialized from the options' seed.
TensorSource QuantizedBase(const ModelSpec& model, const Plan& plan,
                           const TrainingOptions& options);

}  // namespace foretrain
