// What the window showed in a frame, for tests of the real one: they have no other way to look into
// it. In the product it does nothing; a test's executable links tests/shown_frame.cc in its place,
// as base/stop_point.h tells of stop points.
#pragma once

#include <string_view>

#include "ui/view/canvas.h"

namespace foretrain::ui {

// After a frame of the view `view` was drawn and given to the display. The window's thread.
void ShownFrame(std::string_view view, const FrameRecord& record);

}  // namespace foretrain::ui
