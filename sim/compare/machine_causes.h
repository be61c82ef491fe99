// Slowdowns of a measured step that no class of ops explains: a GPU below its clocks, other
// programs on the cores, one rank that is slower than its like. attribution.h takes them out of the
// measured work before it splits the rest by class.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/compare/measured_work.h"
#include "sim/cost/program_costs.h"

namespace foretrain {

enum class MachineCause : std::uint8_t { kThrottled, kCoreWait, kSlowRank };
// "throttled", "core_wait", "slow_rank".
std::string_view Name(MachineCause cause);

// A rank whose GPU ran below its clocks: its compute took `slowdown` times as long.
struct ThrottledRank {
  int rank = 0;
  double slowdown = 1;  // >= 1
};

// Readings beside the spans of a step.
struct MachineState {
  std::vector<ThrottledRank> throttled{};
  // Time that the threads of a rank could have run and waited for a core; 0: none, or unknown.
  double core_wait_s = 0;
};

// The time that a cause added to each op.
struct MachineSlowdown {
  MachineCause cause = MachineCause::kThrottled;
  int rank = -1;                               // -1: several
  std::vector<std::vector<double>> seconds{};  // as MeasuredWork::seconds; 0: none
};

// The slowdowns of a step, in the order in which they are taken out of its work:
//
//   throttled   the ranks of `machine`, together
//   core_wait   all ranks, by the waiting beyond what a forecast with more threads than cores has.
//               Ops that took longer than the median of their name waited; what these do not
//               explain is spread over all compute
//   slow_rank   a rank whose compute, against its forecast, takes 5 % longer than that of the
//   typical
//               rank (the lower median), over ops that several ranks have; ranks apart
//
// O(ops log ops).
std::vector<MachineSlowdown> SlowdownsOf(const Program& program, const ProgramCosts& costs,
                                         const MeasuredWork& work, const MachineState& machine);

// Subtracts its seconds from the work.
void TakeOut(const MachineSlowdown& slowdown, MeasuredWork& work);

}  // namespace foretrain
