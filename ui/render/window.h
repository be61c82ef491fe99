// The view in a window of its own.
#pragma once

#include <functional>
#include "base/result.h"
#include "ui/desktop_view.h"

namespace foretrain::ui {

// Shows `opened` until the window is closed or hooks.stop says so. It sleeps while nothing changes.
// Errors: kUnsupported, no display or no OpenGL 3.3; as OpenDesktop.
Result<void> RunWindow(OpenedStore opened, const ViewOptions& options, const DesktopHooks& hooks);

}  // namespace foretrain::ui
