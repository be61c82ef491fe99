// Puts an imported trace beside its forecast: gives the forecast all traced ranks, and the trace's
// kernels the ids of the forecast's ops.
#pragma once

#include <set>

#include "app/runs/stored_runs.h"
#include "sim/compare/structure/pair_by_structure.h"
#include "traces/timeline.h"

namespace foretrain {

// The largest number of a step with a window; 0 without any.
int LastStep(const Timeline& timeline);

// Ranks with step windows. A rank without any was not recorded.
std::set<int> RecordedRanks(const Timeline& timeline);

// Gives a forecast of representatives the ranks of a trace: each is that of its representative.
void AddTracedRanks(const StoredContext& context, const std::set<int>& traced, Timeline& forecast);

// Pairs the kernels of each step of `trace` with the ops of the forecast's last, steady step. The
// result sums over the steps. The forecast must have the traced ranks.
StructuralPairs PairAllSteps(const Timeline& forecast, Timeline& trace);

}  // namespace foretrain
