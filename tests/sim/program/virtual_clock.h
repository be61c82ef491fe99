// Runs a linked program on a virtual clock, op by op, to see how long a step takes and in what
// order. Written for tests alone and without regard to speed: it looks at every queue again and
// again, and shares nothing with the simulator.
#pragma once

#include <vector>

#include "sim/program/program.h"

namespace foretrain {

struct Played {
  double end_s = 0;
  std::vector<std::vector<double>> start_s;  // by rank index and op, last step
};

// Compute ops take duration_s; sends and receives meet and take `send_s`; all else takes no time,
// and so does issuing. `steps` consecutive steps; end_s is that of the last. Where steps overlap
// the first of them fills the pipeline, and the last goes on to the one behind it.
Played Play(const Program& program, double send_s, int steps = 1);

}  // namespace foretrain
