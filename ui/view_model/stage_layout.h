// Where the lanes of a step's stages lie: as many as there are at once, thin where there are many.
// Leaves out drawing.
#pragma once

#include "ui/view_model/layout.h"

namespace foretrain::ui {

// Axis, lanes, memory and legend of a forecast alone in `window`. Lanes are at least 9 pixels high at
// scale 1, with text from 22 on; memory is left out where `memory` is false or there is no room.
Layout MakeStageLayout(const CompareModel& model, const Box& window, float scale, float scroll,
                       bool memory);

}  // namespace foretrain::ui
