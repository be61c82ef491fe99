// The desktop set as the options ask, for pictures and windows alike.
#pragma once

#include <memory>

#include "ui/desktop_view.h"
#include "ui/view/desktop.h"

namespace foretrain::ui {

// Errors: kInvalidArgument, as ScreenshotDesktop.
Result<std::unique_ptr<Desktop>> OpenDesktop(OpenedStore opened, const ViewOptions& options);

}  // namespace foretrain::ui
