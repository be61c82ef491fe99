// Arithmetic of one training step: what MFU and HFU are shares of. Leaves out memory-bound ops.
#pragma once

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// FLOP of one step over all ranks, GEMMs and attention of the ops that run: causal attention counts
// half, logits count, embedding look-ups do not.
struct StepFlops {
  double model = 0;     // forward and backward: of the model once, however it is split
  double hardware = 0;  // with recomputation, and with what tensor-parallel ranks repeat
};

// Of a valid plan of a valid model. O(blocks of a layer).
StepFlops FlopsOfStep(const ModelSpec& model, const Plan& plan);

}  // namespace foretrain
