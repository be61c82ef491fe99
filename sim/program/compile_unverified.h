// Compile without its last pass, Verify: for a search, which compiles dozens of plans and runs
// none, and for forecasts, which are verified while they are simulated.
#pragma once

#include "base/result.h"
#include "sim/program/program.h"

namespace foretrain {

// As Compile, and the same program, on up to `threads` threads. Verify takes about half of
// Compile's time; it finds errors of the compiler, not of the plan.
Result<Program> CompileUnverified(const ModelSpec& model, const Plan& plan,
                                  const CompileOptions& options = {}, int threads = 1);

// As Link, on up to `threads` threads.
void Link(Program& program, int threads);

}  // namespace foretrain
