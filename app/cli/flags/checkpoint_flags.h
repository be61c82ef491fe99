// Options about checkpoints that training and its forecast share.
#pragma once

#include <cstdint>

#include "app/cli/arguments.h"

namespace foretrain {

// Time between two checkpoints.
struct SaveEvery {
  std::int64_t steps = 0;  // 0: by time
  std::int64_t ns = 0;     // if not by steps; 0: not given
};

// Reads "500" as steps and "10min" as a time, for --save-every.
Arguments::ReadText IntoSaveEvery(SaveEvery& every);

// The inputs of a forecast of goodput (sim/cost/goodput.h).
struct GoodputFlags {
  double mtbf_s = 0;  // 0: no goodput is forecast
  double restart_s = 300;
  SaveEvery every;

  // --mtbf, --restart-time and --save-every.
  void Declare(Arguments& arguments);
};

}  // namespace foretrain
