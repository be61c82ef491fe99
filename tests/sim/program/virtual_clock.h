// Runs a linked program on a virtual clock, op by op, and reports the length of a step and the
// order of its ops. Independent of the simulator and not optimized: it examines every queue again
// and again.
#pragma once

#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

struct Played {
  double end_s = 0;
  std::vector<std::vector<double>> start_s;  // by rank index and op, of the last step
};

// Compute ops take duration_s; sends and receives meet and take `send_s`; everything else, issuing
// included, takes no time. `steps` consecutive steps; end_s is that of the last. If steps overlap,
// the first step fills the pipeline, and the last one starts work of the step after it.
Played Play(const Program& program, double send_s, int steps = 1);

}  // namespace foretrain
