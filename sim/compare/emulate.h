// Emulates a cluster from a run in which ranks took turns on one device: compute times are
// measured, the network is modelled. runtime/executor/compute_turns.h makes ranks take turns.
#pragma once

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/ir/program.h"
#include "sim/simulate/simulate.h"
#include "traces/timeline.h"

namespace foretrain {

struct Emulation {
  Simulation simulation;  // its step time is emulated, not measured on a cluster
  double covered = 0;     // share of compute ops with a measured time, in 0..1
};

// Simulates the program with measured compute times. Each compute op (GEMM, attention,
// memory-bound) takes the median of its times in the steps from `first_step` on. Every other op
// takes its time in `costs`.
//
//   program, costs  the plan on the cluster to emulate; all ranks, linked
//   measured        run in which no two compute ops ran at once
//   options         contention and replay are overwritten
//
// Errors: kInvalidArgument: no compute op was measured in these steps, or the program cannot be
// simulated.
Result<Emulation> EmulateRanks(const Program& program, const ProgramCosts& costs,
                               const Timeline& measured, int first_step,
                               SimulateOptions options = {});

}  // namespace foretrain
