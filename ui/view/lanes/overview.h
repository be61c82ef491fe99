// The bar above the lanes: the whole chosen step, lane by lane, and which part of it is visible.
#pragma once

#include "ui/view/desktop/frame.h"
#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

// Pixels of the bar between the plot's edges: a line for each lane that is shown, or for evenly
// chosen ones if there are more than pixels, in the colour of what fills most of each column.
// O(lines * columns).
Image MakeOverview(const CompareModel& model, const Layout& layout, const Theme& theme);

// The bar with its picture; what the lanes do not show is dimmed.
void DrawOverview(const Frame& frame, const Picture& picture);

}  // namespace foretrain::ui
