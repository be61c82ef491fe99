// Makers of the views that search and forecast, apart from their parts. Leaves out what they show.
#pragma once

#include <memory>

#include "ui/view/desktop_state.h"
#include "ui/view/screen.h"

namespace foretrain::ui {

// Plans for a model on a cluster. `desktop` must outlive the screen.
std::unique_ptr<Screen> MakePlanScreen(DesktopState& desktop);
// A plan whose options are turned.
std::unique_ptr<Screen> MakeWhatIfScreen(DesktopState& desktop);

}  // namespace foretrain::ui
