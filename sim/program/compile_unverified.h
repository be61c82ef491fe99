// Compile without its last pass, Verify: for a search, which compiles dozens of plans and runs
// none, and for forecasts, which are verified while they are simulated.
#pragma once

#include <functional>

#include "base/result.h"
#include "sim/program/program.h"

namespace foretrain {

// As Compile, and the same program, on up to `threads` threads. Verify takes about half of
// Compile's time; it finds errors of the compiler, not of the plan.
Result<Program> CompileUnverified(const ModelSpec& model, const Plan& plan,
                                  const CompileOptions& options = {}, int threads = 1);

// As Link, on up to `threads` threads.
void Link(Program& program, int threads);

// As CompileUnverified, rank by rank: what a simulation without a timeline reads. `see` is called
// with each rank when it is linked, in the order of Program::ranks, and says whether to go on: else
// what comes back ends with that rank. Then its bindings, buffers and parameters are dropped, so
// that one rank's at a time are held: a tenth of the memory. Ranks are
// linked each by itself, with memory shared as freely as may be; where their waits for it close a
// circle, Simulate says so and CompileUnverified shares less. Program::hash stays 0.
Result<Program> CompileOutline(const ModelSpec& model, const Plan& plan,
                               const CompileOptions& options,
                               const std::function<bool(const RankProgram&)>& see);

// Fills in a rank's op numbers, lives and places of buffers, and edges, by itself.
void LinkAlone(const Program& program, RankProgram& rank);

}  // namespace foretrain
