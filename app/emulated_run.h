// What `train --virtual-time` makes of a run whose ranks took turns: stored as a run of its own,
// labelled as emulated.
#pragma once

#include "app/forecasting.h"
#include "base/result.h"
#include "traces/store.h"

namespace foretrain {

struct EmulatedRun {
  RunId run = 0;
  double step_s = 0;
  double covered = 0;  // share of the compute ops that were measured
};

// Plays `program` with the compute times of the measured run, from its second step on where it has
// one, on the context's cluster, and stores the timeline as resimulated. Errors: the store's, and
// those of EmulateRanks.
Result<EmulatedRun> StoreEmulated(Store& store, const ForecastContext& context,
                                  const Program& program, RunId measured);

}  // namespace foretrain
