// Properties that every plan must have when compiled, forecast and trained.
#pragma once

#include "tests/runtime/equality/plan_matrix.h"

namespace foretrain {

// Trains the case for `steps` steps and checks:
//   - the closed-form memory equals the linked program's by rank, space and category;
//   - the training learns;
//   - each loss is within 1e-5 of the reference's;
//   - each tensor's gradient at the first and last step is within 1e-4 of its norm, unless updates
//     are delayed or gathers quantized;
//   - each communication and copy op moves the simulated bytes;
//   - the run without poison gives the same bits. Experts are chosen as in the reference.
void CheckCase(const MatrixCase& one, int steps);

}  // namespace foretrain
