// The view in a window of its own.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "ui/compare_view.h"

namespace foretrain::ui {

// Shows `input` until the window is closed or `stop`, which may be empty, says so. It sleeps while
// nothing changes.
// Errors: kUnsupported, no display or no OpenGL 3.3; as OpenScreen.
Result<void> RunWindow(std::unique_ptr<CompareInput> input, const ViewOptions& options,
                       const ReloadRuns& reload, const std::function<bool()>& stop);

}  // namespace foretrain::ui
