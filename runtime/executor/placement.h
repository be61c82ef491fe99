// Where the ranks of a run lie on this machine: each rank has a slot, as far from the first as
// Plan::rank_order puts it, and the cores of that slot. Leaves out what is near to what on other
// machines (sim/cost/plan_place.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/program/program.h"

namespace foretrain {

struct RankSlot {
  int rank = 0;
  int slot = 0;            // device of the plan that it is (sim/program/rank_order.h)
  std::vector<int> cores;  // of the slot, ascending; ranks share them where there are fewer
};

// Of each rank of the program, by slot.
//
//   cores  that the process may use, ascending, at least one: slot s of n has the s-th of n equal
//          runs of them, so that neighbouring slots have neighbouring cores
std::vector<RankSlot> SlotsOf(const Program& program, const std::vector<int>& cores);

// Cores that this process may use, ascending; {0} where the system does not say.
std::vector<int> UsableCores();

// The calling thread runs on these cores alone from here on. Errors: kIo, the system's own.
Result<void> PinThread(const std::vector<int>& cores);

// "tp 0 1, 2 3; dp 0 2, 1 3": the slots of each degree's groups, members in the order of their
// sums, at most `most` groups of a degree; empty for one rank. pp: of neighbours.
std::string DescribeGroups(const Plan& plan, int most = 4);

}  // namespace foretrain
