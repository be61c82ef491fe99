// The controls at the left of overview and axis: which rank to go to, groups, slowest first.
#pragma once

#include <string>

#include "ui/view/desktop/frame.h"
#include "ui/view/screens/screen.h"

namespace foretrain::ui {

// Text of the field, and whether it takes the keyboard in the next frame.
struct RankField {
  std::string text{};
  bool wanted = false;
};

// Draws them into the gutter of `layout`, if it has an overview and there are several lanes.
// Presses change `state`; a rank that is typed is selected and scrolled to.
void DrawLaneControls(const ScreenFrame& frame, const CompareModel& model, const Layout& layout,
                      RankField& field, ViewState& state);

}  // namespace foretrain::ui
