// Lays out the lanes of a step's pipeline stages: as many as fit, and thin if there are many.
#pragma once

#include "ui/view_model/timeline/layout.h"

namespace foretrain::ui {

// Lays out axis, lanes, memory and legend of a single forecast in `window`. Lanes are at least 9
// pixels high at scale 1, and have text from 22 pixels on. Memory is left out if `memory` is false
// or there is no room.
Layout MakeStageLayout(const CompareModel& model, const Box& window, float scale, float scroll,
                       bool memory);

}  // namespace foretrain::ui
