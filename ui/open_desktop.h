// The two steps of showing a desktop: opening it as the options ask, and running it in a window.
#pragma once

#include <memory>

#include "ui/desktop_view.h"
#include "ui/view/desktop/desktop.h"

namespace foretrain::ui {

// A desktop for pictures and windows alike. Errors: kInvalidArgument, as ScreenshotDesktop.
Result<std::unique_ptr<Desktop>> OpenDesktop(OpenedStore opened, const ViewOptions& options);

// Shows `opened` until the window is closed or hooks.stop returns true. Sleeps while nothing
// changes (ui/render/window.cc). Errors: kUnsupported, no display or no OpenGL 3.3; as OpenDesktop.
Result<void> RunWindow(OpenedStore opened, const ViewOptions& options, const DesktopHooks& hooks);

}  // namespace foretrain::ui
