// Arithmetic of one training step, the numerator of MFU and HFU. Leaves out memory-bound ops.
#pragma once

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// FLOP of one step over all ranks: GEMMs and attention of the ops that run. Causal attention counts
// half, logits count, embedding look-ups do not.
struct StepFlops {
  double model = 0;     // forward and backward of the model once, however it is split
  double hardware = 0;  // plus recomputation and work repeated on tensor-parallel ranks
};

// For a valid plan of a valid model. O(blocks of a layer).
StepFlops FlopsOfStep(const ModelSpec& model, const Plan& plan);

}  // namespace foretrain
