// Simulate for whoever may lose interest: what a view asks for while someone turns options. Leaves
// out why (ui/view_model/latest_worker.h).
#pragma once

#include <functional>

#include "sim/simulate/simulate.h"

namespace foretrain {

// As Simulate. `cancelled` is asked before the simulation and every few thousand events of it, on
// the caller's thread; empty: never. Errors: those of Simulate; kAborted, `cancelled` said true.
Result<Simulation> SimulateUntil(const Program& program, const ProgramCosts& costs,
                                 const SimulateOptions& options,
                                 const std::function<bool()>& cancelled);

}  // namespace foretrain
