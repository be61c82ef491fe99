// A run of many ranks on one device, one at a time, made into that of ranks with a device each:
// measured compute, modelled network. Leaves out taking turns (runtime/executor/compute_turns.h).
#pragma once

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/program.h"
#include "sim/simulate/simulate.h"
#include "traces/timeline.h"

namespace foretrain {

struct Emulation {
  Simulation simulation;  // its step is emulated: never that of a cluster that was measured
  double covered = 0;     // share of the compute ops that have a measured time
};

// Plays the program with each compute op (GEMM, attention, memory-bound) as long as it was measured
// in the median of the steps from `first_step` on, and everything else as long as `costs` says.
//
//   program, costs  of the plan on the cluster that is emulated; all ranks, linked
//   measured        in which no two compute ops ran at once
//   options         but contention, which measured ops do not have, and replay
//
// Errors: kInvalidArgument, no compute op of these steps, or a program that does not simulate.
Result<Emulation> EmulateRanks(const Program& program, const ProgramCosts& costs,
                               const Timeline& measured, int first_step,
                               SimulateOptions options = {});

}  // namespace foretrain
