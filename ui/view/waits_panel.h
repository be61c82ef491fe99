// A table of waits (ui/view_model/wait_rows.h), drawn.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ui/view/screen.h"
#include "ui/view_model/hover.h"
#include "ui/view_model/wait_rows.h"

namespace foretrain::ui {

// A heading and the rows below it from `y` on, as far as `box` goes, with a column for each run that
// has figures and their difference; `y` becomes where they end. Returns what the mouse is over.
std::optional<HoverText> DrawWaits(const ScreenFrame& frame, const Box& box,
                                   const std::string& title, const std::string& remark,
                                   const std::vector<WaitRow>& rows, float& y);

}  // namespace foretrain::ui
