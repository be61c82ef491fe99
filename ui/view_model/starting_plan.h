// A plan to begin with where nobody pinned one. Leaves out the search proper (plan_search.h).
#pragma once

#include <functional>

#include "ui/view_model/plan_setup.h"
#include "ui/view_model/what_if.h"

namespace foretrain::ui {

// The fastest plan by closed form of a coarse part of the request's space; where none of it fits,
// its smallest. Errors: kInfeasible, no plan makes the ranks; kAborted.
Result<Scenario> StartingScenario(const PlanRequest& request, int threads,
                                  const std::function<bool()>& cancelled);

}  // namespace foretrain::ui
