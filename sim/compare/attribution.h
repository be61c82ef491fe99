// Explains the gap between a forecast and a measurement. First the machine's part is taken out of
// the measured work, then the program is replayed with that work substituted class by class, and
// Shapley values split the difference among the classes. join.h pairs single ops instead.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/compare/machine_causes.h"
#include "sim/cost/program_costs.h"
#include "sim/program/ir/program.h"
#include "traces/timeline.h"

namespace foretrain {

struct GapShare {
  GapClass gap_class = GapClass::kGemm;
  double seconds = 0;  // part of the gap; positive: measured work takes longer than predicted
  double standard_error = 0;  // 0: all subsets were simulated
};

struct MachineShare {
  MachineCause cause = MachineCause::kThrottled;
  int rank = -1;       // -1: several
  double seconds = 0;  // part of the gap
};

// "throttled GPU of rank 3", "throttled GPUs", "waiting for cores", "slow rank 3".
std::string Describe(const MachineShare& share);

struct Attribution {
  double predicted_s = 0;    // T(none): the forecast step
  double replayed_s = 0;     // T(all): the step with all measured work
  double measured_s = 0;     // the measured step
  double unexplained_s = 0;  // measured_s - replayed_s
  // Machine and shares sum to T(all) - T(none). One share per class of the step.
  std::vector<MachineShare> machine{};
  std::vector<GapShare> shares{};
  double covered = 0;  // share of the step's ops that have a measured time
  int replays = 0;
  bool exact = true;  // true: all subsets simulated; false: 64 random orders with a fixed seed
  // False where more than 3 % of the step is unexplained.
  bool Trusted() const;
};

// Splits the gap between forecast and measured step `step` among classes of ops.
//
//   program, costs  those of the forecast; all ranks, linked
//   measured        sorted; has step windows and spans of `step`
//   machine         read during that step
//
// Compute and copies get their measured times. Collectives and transfers get their wire time (end
// minus the latest arrival among peers), so that the replay computes waiting itself. The host gets
// the measured times of launches, where they were recorded. T(S) is the step time with the classes
// of S substituted [Shapley 1953].
//
// Errors: kInvalidArgument: no such step, or a program that cannot be simulated. Costs 2^classes
// simulations, or up to 64 * classes for large programs.
Result<Attribution> AttributeGap(const Program& program, const ProgramCosts& costs,
                                 const Timeline& measured, int step,
                                 const MachineState& machine = {});

}  // namespace foretrain
