// The names at the left of the lanes: ranks, queues and counters, groups and pins.
#pragma once

#include <optional>

#include "ui/view/desktop/frame.h"
#include "ui/view_model/timeline/hover.h"

namespace foretrain::ui {

// The gutter of one visible lane.
void DrawGutter(const Frame& frame, const LaneBox& box);

// A line where the lane whose name is being dragged would go.
void DrawLaneDrop(const Frame& frame, float mouse_y);

// The gutter's text about the lane under the mouse; `nullopt` if there is none.
std::optional<HoverText> HoverOfGutter(const Frame& frame, Point mouse);

}  // namespace foretrain::ui
