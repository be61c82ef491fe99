#include "ui/render/shown_frame.h"

namespace foretrain::ui {

// Nothing else may be defined in this file; see the header.
void ShownFrame(std::string_view /*view*/, const FrameRecord& /*record*/) {}

}  // namespace foretrain::ui
