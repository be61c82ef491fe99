// Compile without its last pass, Verify: for a search, which compiles dozens of plans and runs none.
#pragma once

#include "base/result.h"
#include "sim/program/program.h"

namespace foretrain {

// As Compile, and the same program. Verify takes about half of Compile's time; it finds errors of
// the compiler, not of the plan.
Result<Program> CompileUnverified(const ModelSpec& model, const Plan& plan,
                                  const CompileOptions& options = {});

}  // namespace foretrain
