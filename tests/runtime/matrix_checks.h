// What must hold of every plan that is compiled, forecast and trained.
#pragma once

#include "plan_matrix.h"

namespace foretrain {

// Trains the case for `steps` steps and checks, as failures of the test: the program is compiled
// and its closed-form memory equals the linked one's by rank, space and category; it learns; each
// loss equals the reference's within 1e-5 of it, and each tensor's gradient at the first and the
// last step within 1e-4 of its norm, unless updates come late or gathers are rounded; what each op
// of communication and copy moves is what the simulation says; the run without poison has the same
// bits. Experts are chosen as in the reference.
void CheckCase(const MatrixCase& one, int steps);

}  // namespace foretrain
