// Panels of the what-if view in place of its timeline.
#pragma once

#include <cstddef>
#include <optional>

#include "ui/view/screens/screen.h"
#include "ui/view_model/planning/plan_sweep.h"
#include "ui/view_model/planning/scenario_changes.h"

namespace foretrain::ui {

// A waterfall from the pinned step time to the present one, a change a row, with memory beside it.
void DrawDifference(const ScreenFrame& frame, const Box& box, const ExplainedDifference& explained);

// Throughput of a device, device-hours of a billion tokens, and memory with its limit, over the
// swept values.
void DrawSweep(Canvas& canvas, const Box& box, const PlanSweep& sweep);

// The scenarios that were made. Returns the one that was clicked.
std::optional<std::size_t> DrawHistory(const ScreenFrame& frame, const Box& box,
                                       const ScenarioHistory& history);

}  // namespace foretrain::ui
