// Placement of a run's ranks on this machine: each rank has a slot, in the order of
// Plan::rank_order, and the slot's cores. Other machines: sim/cost/network/plan_place.h.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/program/ir/program.h"

namespace foretrain {

struct RankSlot {
  int rank = 0;
  int slot = 0;            // its device number in the plan (sim/program/ir/rank_order.h)
  std::vector<int> cores;  // ascending; shared if there are fewer cores than ranks
};

// The slots of all ranks of the program, in order of slot.
//
//   cores  usable cores, ascending, at least one: slot s of n gets the s-th of n equal runs of
//   them,
//          so that neighbouring slots have neighbouring cores
std::vector<RankSlot> SlotsOf(const Program& program, const std::vector<int>& cores);

// Cores that this process may use, ascending; {0} if the system does not say.
std::vector<int> UsableCores();

// Restricts the calling thread to these cores. Errors: kIo, the system's own.
Result<void> PinThread(const std::vector<int>& cores);

// "tp 0 1, 2 3; dp 0 2, 1 3": the slots of each group by degree, members in the order of their
// sums, at most `max` groups a degree. Empty for one rank. pp: pairs of neighbours.
std::string DescribeGroups(const Plan& plan, int max = 4);

}  // namespace foretrain
