// Reports each frame that the window shows, so that tests of the real window can inspect it. It
// does nothing in the product. A test's executable links tests/shown_frame.cc instead, as
// base/stop_point.h describes for stop points.
#pragma once

#include <string_view>

#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

// Called on the window's thread after a frame of the view `view` was given to the display.
void ShownFrame(std::string_view view, const FrameRecord& record);

}  // namespace foretrain::ui
