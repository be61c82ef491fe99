// Rows of a table of plans: near-duplicates are folded into one row, shown by its simplest plan.
#pragma once

#include <vector>

#include "sim/search/search.h"

namespace foretrain {

// Plans of one layout (tp, pp, ep): the fastest, and others that need about as much memory or
// more.
struct PlanRow {
  const RankedPlan* shown = nullptr;       // the simplest of those within kSimplest of the fastest
  std::vector<const RankedPlan*> alike{};  // the others, fastest first
};

// The plan that is shown for a row takes at most this share longer than the row's fastest.
inline constexpr double kSimplest = 0.01;
// A plan that needs less than this share of the fastest plan's memory has a row of its own.
inline constexpr double kSmaller = 0.8;

// Deals `plans`, fastest first, to rows. Rows are sorted by their fastest plan and borrow from
// `plans`. The simplest plan is the one that Describe needs the fewest words for. O(plans * rows).
std::vector<PlanRow> RowsOf(const std::vector<RankedPlan>& plans);

}  // namespace foretrain
