// Explains the gap between a forecast and a measurement: replays the program with measured work
// substituted class by class and shares the difference out by Shapley value. Leaves out the join of
// single ops: join.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/cost/program_costs.h"
#include "sim/program/program.h"
#include "traces/timeline.h"

namespace foretrain {

// What can be substituted: TP, CP and EP communication count as one.
enum class GapClass : std::uint8_t {
  kGemm,
  kAttention,
  kMemoryBound,
  kModelParallel,
  kDataParallel,
  kPipeline,
  kCopies,
  kHost,
};
inline constexpr int kGapClassCount = 8;
std::string_view Name(GapClass gap_class);
GapClass GapClassOf(OpClass op_class);

struct GapShare {
  GapClass gap_class = GapClass::kGemm;
  double seconds = 0;         // of the gap; positive: measured work takes longer than predicted
  double standard_error = 0;  // 0 where all orders were played
};

struct Attribution {
  double predicted_s = 0;        // T(none): the step as forecast
  double replayed_s = 0;         // T(all): the step with all measured work
  double measured_s = 0;         // the step as measured
  double unexplained_s = 0;      // measured - T(all)
  std::vector<GapShare> shares;  // classes the step has; they sum to T(all) - T(none)
  double covered = 0;            // share of the step's ops that have a measured time
  int replays = 0;
  bool exact = true;  // all subsets played; else 64 seeded orders
  // Above 3 % of the step unexplained, the shares are not to be trusted.
  bool Trusted() const;
};

// Shares the gap of measured step `step` out.
//
//   program, costs  those of the forecast; all ranks, linked
//   measured        sorted; step windows and spans of `step`
//
// Compute and copies are substituted as measured; collectives and transfers by wire time (end minus
// the latest arrival among peers), so that waiting is computed, not copied; host by the measured
// time of launches, where they were recorded. T(S) is the step time with the classes of S
// substituted [Shapley 1953].
//
// Errors: kInvalidArgument, no such step, or a program that does not simulate. O(2^classes)
// simulations, or 64 * classes for large programs.
Result<Attribution> AttributeGap(const Program& program, const ProgramCosts& costs,
                                 const Timeline& measured, int step);

}  // namespace foretrain
