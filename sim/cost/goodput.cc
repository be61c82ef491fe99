#include "sim/cost/goodput.h"

#include <algorithm>
#include <cmath>

#include "base/result.h"

namespace foretrain {

Goodput GoodputOf(double every_s, const CheckpointCost& cost, const Failures& failures) {
  FT_CHECK(every_s > 0 && failures.mtbf_s > 0);
  const double mtbf_s = failures.mtbf_s;
  const double work_s = std::max(every_s, cost.write_s);
  // Between two checkpoints that count, with all that failures add.
  const double cycle_s = mtbf_s * std::exp((failures.restart_s + cost.write_s) / mtbf_s) *
                         std::expm1((work_s + cost.copy_s) / mtbf_s);
  Goodput goodput;
  goodput.share = work_s / cycle_s;
  goodput.saving = cost.copy_s / cycle_s;
  // One failure in each mean time, after which a restart takes until it succeeds or fails too.
  goodput.restarting = -std::expm1(-failures.restart_s / mtbf_s);
  goodput.repeated = std::max(0.0, 1 - goodput.share - goodput.saving - goodput.restarting);
  return goodput;
}

// The derivative of the goodput has the sign of (1 - t / M) e^((t + C) / M) - 1, which falls from
// above 0 at t = 0 to -1 at t = M.
double BestSaveInterval(const CheckpointCost& cost, const Failures& failures) {
  const double mtbf_s = failures.mtbf_s;
  double low_s = 0, high_s = mtbf_s;
  for (int i = 0; i < 60; ++i) {
    const double middle_s = (low_s + high_s) / 2;
    const bool rises = (1 - middle_s / mtbf_s) * std::exp((middle_s + cost.copy_s) / mtbf_s) > 1;
    (rises ? low_s : high_s) = middle_s;
  }
  return std::max(low_s, cost.write_s);
}

}  // namespace foretrain
