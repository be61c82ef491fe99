// Compile without its last pass, Verify: for a search, which compiles dozens of plans and runs
// none, and for forecasts, which verify while they simulate.
#pragma once

#include <functional>

#include "base/result.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// As Compile, with the same program as result, on up to `threads` threads. Verify takes about half
// of Compile's time and finds errors of the compiler, not of the plan.
Result<Program> CompileUnverified(const ModelSpec& model, const Plan& plan,
                                  const CompileOptions& options = {}, int threads = 1);

// As Link, on up to `threads` threads.
void Link(Program& program, int threads);

// Compiles rank by rank, for a simulation without a timeline. `see` is called with each linked
// rank, in the order of Program::ranks; if it returns false, the result ends with that rank. After
// the call the rank's bindings, buffers and parameters are dropped, so that only one rank's are
// held at a time: a tenth of the memory.
// Each rank is linked by itself and shares memory as freely as possible. If its waits for memory
// deadlock, Simulate reports it, and CompileUnverified shares less. Program::hash stays 0.
Result<Program> CompileOutline(const ModelSpec& model, const Plan& plan,
                               const CompileOptions& options,
                               const std::function<bool(const RankProgram&)>& see);

// Fills in the op numbers, buffer lifetimes, offsets and edges of one rank, without regard to the
// others.
void LinkAlone(const Program& program, RankProgram& rank);

}  // namespace foretrain
