// What a plan bets on: the part of its step in which it differs most from plans that are as fast,
// so that of plans which a forecast cannot tell apart some that would fail for different reasons
// are tried.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/search/search.h"

namespace foretrain {

// Names the bet of the first plan and of those tied with it: "communication 31 % of the step",
// "memory 78.2 of 80 GiB". Each bet is named once, by the fastest plan that makes it: `plans` are
// sorted, with `tied` marked. O(plans^2).
void MarkBets(std::vector<RankedPlan>& plans, std::int64_t memory_bytes);

}  // namespace foretrain
