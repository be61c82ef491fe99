// Forecasts the goodput of a training that fails at random times and goes on from its newest
// checkpoint: the share of the time that becomes steps which are kept.
#pragma once

#include "sim/cost/checkpoint_cost.h"

namespace foretrain {

struct Failures {
  double mtbf_s = 0;     // mean time between failures of the whole job, > 0
  double restart_s = 0;  // from a failure to the first step after it
};

// Shares of the time; they add up to 1.
struct Goodput {
  double share = 1;     // steps that are kept
  double saving = 0;    // standstill for checkpoints
  double repeated = 0;  // work done after the newest whole checkpoint, which is lost
  double restarting = 0;
};

// Failures are a Poisson process, also while the job restarts. With M the mean time between them,
// R of a restart, C of the standstill, W of the writing, and t the time between saves, or W if
// that is longer, the goodput is
//
//   t / (M e^((R + W) / M) (e^((t + C) / M) - 1))
//
// Daly's formula [1] with W added to the restart: a checkpoint counts W after its copy, so that
// each failure loses W more.
//
//   every_s  of steps between two saves, > 0
//
// [1] Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart dumps"
Goodput GoodputOf(double every_s, const CheckpointCost& cost, const Failures& failures);

// The time between saves with the best goodput, in seconds.
double BestSaveInterval(const CheckpointCost& cost, const Failures& failures);

}  // namespace foretrain
